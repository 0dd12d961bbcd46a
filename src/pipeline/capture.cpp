// Calibration only: the Hessian of every linear input of a model, to a CMFHESS1 file; and what can
// be done with such files.
#include <algorithm>
#include <iterator>

#include "calibration_input.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/pipeline/model_source.hpp"

namespace cortiq::pipeline {

CaptureResult run_capture(const std::filesystem::path& path, const std::filesystem::path& output,
                          const CaptureOptions& capture_options, Context& context) {
  const CalibrationOptions& options = capture_options.calibration;
  const calib::Part& part = capture_options.part;
  const auto source = open_source(path);
  check_output_path(output, source->files());
  for (const auto& text : options.sources) check_output_path(output, {text.path});
  const model::Forward forward(*source, context.pool, {.spill_folder = options.spill_folder});
  const CalibrationInput input = load_calibration(*source, forward.arch(), options,
                                                  capture_options.q2tp, true, context.log);
  log_sources(input, context.log);
  const auto groups = model::input_groups(forward.arch(), *source);
  const std::string model_hash = model_identity(*source, context.pool);
  const model::Windows windows = calib::windows_of_part(input.corpus.windows, part);
  if (part.count > 1) {
    context.log.info("part {} of {}: {} tokens in {} windows", part.number, part.count,
                     windows.tokens(), windows.count());
  }
  std::vector<model::InputGroup> captured;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(captured),
               [&](const auto& group) { return group.layer < forward.arch().layers; });
  auto writer = calib::HessianCacheWriter::resumable(output, captured.size(), std::nullopt);
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
  calib::CacheIdentity identity = cache_identity(input, model_hash);
  identity.tokens = windows.tokens();
  identity.part_count = part.count;
  if (part.count > 1) identity.parts = {part.number};
  writer.commit(identity);
  return result;
}

CacheReport inspect_cache(const std::filesystem::path& path, calib::InspectDepth depth,
                          Context& context) {
  const calib::HessianCache cache = calib::HessianCache::open(path);
  CacheReport report;
  report.identity = cache.identity();
  const auto count = static_cast<std::int64_t>(cache.entries().size());
  for (std::int64_t i = 0; i < count; ++i) {
    context.interrupt.check();
    report.entries.push_back(
        calib::inspect_entry(cache, static_cast<std::size_t>(i), depth, context.pool));
    context.log.progress("inspecting", i + 1, count, "Hessians");
  }
  return report;
}

calib::MergeResult run_merge(const std::vector<std::filesystem::path>& inputs,
                             const std::filesystem::path& output,
                             const calib::MergeOptions& options, Context& context) {
  std::vector<std::filesystem::path> files;
  for (const auto& input : inputs) {
    files.push_back(input);
    files.push_back(calib::sidecar_path(input));
  }
  check_output_path(output, files);
  calib::MergeResult result =
      calib::merge_caches(inputs, output, options, [&](std::int64_t done, std::int64_t total) {
        context.interrupt.check();
        context.log.progress("merging", done, total, "Hessians");
      });
  for (const std::string& warning : result.warnings) context.log.warn("{}", warning);
  return result;
}

}  // namespace cortiq::pipeline
