// Calibration only: the Hessian of every linear input of a model, to a CMFHESS1 file; and what can
// be done with such files.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "calibration_input.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "disk_plan.hpp"
#include "hessian_files.hpp"
#include "run_paths.hpp"

namespace cortiq::pipeline {
namespace {

/// Writes the Hessians of all layers, in their order, to one file or to chunks.
class CaptureWriter {
 public:
  /// @param identity  but for the layers of a file
  CaptureWriter(const HessianFiles& files, const model::Arch& arch, const cmf::Source& source,
                calib::CacheIdentity identity)
      : files_(files), identity_(std::move(identity)) {
    for (auto& group : model::input_groups(arch, source)) {
      if (group.layer < arch.layers) groups_.push_back(std::move(group));
    }
    if (!groups_.empty()) open(groups_.front().layer);  // a full disk shows before the first layer
  }
  [[nodiscard]] std::vector<model::InputGroup> groups_of(std::int64_t layer) const {
    return groups_if([layer](const auto& group) { return group.layer == layer; });
  }
  void add(const model::InputGroup& group, const calib::Hessian& hessian) {
    if (!writer_) open(group.layer);
    writer_->add(group.tensors, hessian);
    if (writer_->entries() == expected_) close();
  }
  [[nodiscard]] const std::vector<std::filesystem::path>& written() const { return written_; }

 private:
  template <typename Wanted>
  [[nodiscard]] std::vector<model::InputGroup> groups_if(Wanted wanted) const {
    std::vector<model::InputGroup> found;
    std::copy_if(groups_.begin(), groups_.end(), std::back_inserter(found), wanted);
    return found;
  }
  void open(std::int64_t layer) {
    file_ = files_.file_of(layer);
    const auto held =
        groups_if([this](const auto& group) { return files_.file_of(group.layer) == file_; });
    expected_ = held.size();
    writer_.emplace(calib::HessianCacheWriter::resumable(files_.files()[file_].path, expected_,
                                                         std::nullopt));
    writer_->reserve(calib::cache_bytes(held));
  }
  void close() {
    identity_.layers = files_.layers_of(file_);
    writer_->commit(identity_);
    writer_.reset();
    written_.push_back(files_.files()[file_].path);
  }

  const HessianFiles& files_;
  calib::CacheIdentity identity_;
  std::vector<model::InputGroup> groups_;
  std::optional<calib::HessianCacheWriter> writer_;
  std::size_t file_ = 0;        // that is being written
  std::uint64_t expected_ = 0;  // entries of it
  std::vector<std::filesystem::path> written_;
};

std::vector<DiskItem> disk_items(const HessianFiles& files, const model::Forward& forward,
                                 const cmf::Source& source, const model::Windows& windows,
                                 const CalibrationOptions& options) {
  std::map<std::size_t, std::vector<model::InputGroup>> groups;  // by file
  for (auto& group : model::input_groups(forward.arch(), source)) {
    if (group.layer < forward.arch().layers)
      groups[files.file_of(group.layer)].push_back(std::move(group));
  }
  std::vector<DiskItem> items;
  for (const auto& [file, held] : groups)
    items.push_back({"Hessian cache", files.files()[file].path, calib::cache_bytes(held)});
  if (options.spill_folder) {
    const std::int64_t floats = windows.tokens() * forward.arch().hidden;
    items.push_back({"hidden states", *options.spill_folder / "hidden-states",
                     sizeof(float) * static_cast<std::uint64_t>(floats)});
  }
  return items;
}

void check_paths(const cmf::Source& source, const HessianFiles& files,
                 const CalibrationOptions& options) {
  RunPaths paths;
  paths.reads(source.files(), "input file");
  for (const auto& text : options.sources) paths.reads(text.path, "input file");
  for (const HessianFile& file : files.files()) paths.writes_cache(file.path);
  paths.check();
  for (const HessianFile& file : files.files()) {
    check_output_path(file.path, {});
    calib::HessianCacheWriter::check_place(file.path);
  }
  if (options.spill_folder) check_spill_folder(*options.spill_folder);
}

}  // namespace

CaptureResult run_capture(const std::filesystem::path& path, const std::filesystem::path& output,
                          const CaptureOptions& capture_options, Context& context) {
  const CalibrationOptions& options = capture_options.calibration;
  const calib::Part& part = capture_options.part;
  const auto source = open_source(path);
  for (const std::string& warning : source_warnings(*source)) context.log.warn("{}", warning);
  const HessianFiles files(output, capture_options.chunk_layers, count_layers(*source));
  check_paths(*source, files, options);
  const model::Forward forward(*source, context.pool, {.spill_folder = options.spill_folder});
  const CalibrationInput input = load_calibration(*source, forward.arch(), options,
                                                  capture_options.q2tp, true, context.log);
  log_sources(input, context.log);
  const std::string model_hash = model_identity(*source, context.pool);
  const model::Windows windows = calib::windows_of_part(input.corpus.windows, part);
  if (part.count > 1) {
    context.log.info("part {} of {}: {} tokens in {} windows", part.number, part.count,
                     windows.tokens(), windows.count());
  }
  calib::CacheIdentity identity = cache_identity(input, model_hash);
  identity.tokens = windows.tokens();
  identity.part_count = part.count;
  if (part.count > 1) identity.parts = {part.number};
  const std::vector<DiskItem> disk = disk_items(files, forward, *source, windows, options);
  context.log.info("disk: {}", disk_text(disk));
  check_disk(disk);
  CaptureWriter writer(files, forward.arch(), *source, identity);
  CaptureResult result{0, windows.tokens(), windows.count(), {}};
  model::HiddenStates states = forward.embed(windows);
  for (std::int64_t layer = 0; layer < forward.arch().layers; ++layer) {
    const std::vector<model::InputGroup> wanted = writer.groups_of(layer);
    calib::Capture capture(wanted, context.pool);
    forward.run_layer(layer, windows, states, &capture, [&](std::int64_t done) {
      context.interrupt.check();
      context.log.progress("calibrating", layer * windows.tokens() + done,
                           forward.arch().layers * windows.tokens(), "token layers");
    });
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      writer.add(wanted[i], *capture.take(i));
      ++result.entries;
    }
  }
  result.files = writer.written();
  return result;
}

CacheReport inspect_cache(const std::filesystem::path& path, calib::InspectDepth depth,
                          Context& context) {
  const calib::HessianCache cache = calib::HessianCache::open(path);
  CacheReport report;
  report.identity = cache.identity();
  if (depth == calib::InspectDepth::kFull) (void)cache.sha256();
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
    for (const auto& chunk : calib::chunk_files(input)) {
      files.push_back(chunk);
      files.push_back(calib::sidecar_path(chunk));
    }
  }
  RunPaths paths;
  paths.reads(files, "input file");
  paths.writes(output, "merged cache", {".json"});
  paths.check();
  check_output_path(output, {});
  calib::check_sidecar(output);
  calib::MergeResult result =
      calib::merge_caches(inputs, output, options, [&](std::int64_t done, std::int64_t total) {
        context.interrupt.check();
        context.log.progress("merging", done, total, "Hessians");
      });
  for (const std::string& warning : result.warnings) context.log.warn("{}", warning);
  return result;
}

}  // namespace cortiq::pipeline
