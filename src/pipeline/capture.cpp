// Calibration only: the Hessian of every linear input of a model, to a CMFHESS1 file.
#include <algorithm>
#include <iterator>

#include "calibration_input.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/pipeline/model_source.hpp"

namespace cortiq::pipeline {

CaptureResult run_capture(const std::filesystem::path& path, const std::filesystem::path& output,
                          const CalibrationOptions& options, const std::string& profile_codec,
                          Context& context) {
  const auto source = open_source(path);
  check_output_path(output, source->files());
  for (const auto& text : options.sources) check_output_path(output, {text.path});
  const model::Forward forward(*source, context.pool, {.spill_folder = options.spill_folder});
  const CalibrationInput input = load_calibration(*source, forward.arch(), options,
                                                  profile_codec == "q2tp", true, context.log);
  log_sources(input, context.log);
  const auto groups = model::input_groups(forward.arch(), *source);
  const std::string model_hash = model_identity(*source, context.pool);
  const model::Windows& windows = input.corpus.windows;
  std::vector<model::InputGroup> captured;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(captured),
               [&](const auto& group) { return group.layer < forward.arch().layers; });
  calib::HessianCacheWriter writer(output, captured.size());
  writer.reserve(calib::cache_bytes(captured));
  CaptureResult result{0, windows.tokens(), windows.count()};
  model::HiddenStates states = forward.embed(windows);
  for (std::int64_t layer = 0; layer < forward.arch().layers; ++layer) {
    std::vector<model::InputGroup> wanted;
    for (const auto& group : groups) {
      if (group.layer == layer) wanted.push_back(group);
    }
    calib::Capture capture(wanted, context.pool);
    forward.run_layer(layer, windows, states, &capture, [&](std::int64_t done) {
      context.interrupt.check();
      context.log.progress("calibrating", layer * windows.tokens() + done,
                           forward.arch().layers * windows.tokens(), "token layers");
    });
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      writer.add(wanted[i].tensors, *capture.take(i));
      ++result.entries;
    }
  }
  writer.commit(cache_identity(input, model_hash));
  return result;
}

CacheReport inspect_cache(const std::filesystem::path& path, bool full) {
  const calib::HessianCache cache = calib::HessianCache::open(path);
  CacheReport report;
  report.identity = cache.identity();
  for (std::size_t i = 0; i < cache.entries().size(); ++i)
    report.entries.push_back(calib::inspect_entry(cache, i, full));
  return report;
}

}  // namespace cortiq::pipeline
