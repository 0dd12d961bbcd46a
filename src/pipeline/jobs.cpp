// The jobs without calibration of their own: rounding, conversion, paths.
#include "cortiq/pipeline/jobs.hpp"

#include <chrono>

#include "cortiq/hf/folder.hpp"
#include "cortiq/support/memory.hpp"
#include "bit_allocation.hpp"
#include "disk_plan.hpp"
#include "gptq_run.hpp"
#include "run_paths.hpp"
#include "tensor_work.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

/// Label of the header for a codec profile (cmf.md section 5.1).
const char* quant_type(codec::Codec profile) {
  using codec::Codec;
  switch (profile) {
    case Codec::kF32:
      return "F32";
    case Codec::kF16:
      return "F16";
    case Codec::kBf16:
      return "BF16";
    case Codec::kQ8Row:
      return "Q8_ROW";
    case Codec::kQ82f:
      return "Q8_2F";
    case Codec::kVbit:
    case Codec::kQ1:
    case Codec::kQ1p:
    case Codec::kQ1s:
    case Codec::kQ1t:
      return "VBIT";
    default:
      return "Q4_BLOCK";
  }
}

/// What a rounding run leaves as it is, for it is quantized already, and what it rounds.
struct Kept {
  std::vector<std::string> names;
  std::int64_t weights = 0;
  std::int64_t rounded = 0;  ///< weights
};

Kept kept_quantized(const cmf::Source& source, const Plan& plan) {
  Kept kept;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const cmf::TensorInfo& info = source.tensors()[i];
    if (plan.choices[i].action != Action::kCopy) {
      kept.rounded += info.elements();
    } else if (info.shape.size() == 2 && cmf::has_decoder(info.dtype) && !cmf::is_float(info.dtype)) {
      kept.names.push_back(fmt::format("{} ({})", info.name, cmf::dtype_name(info.dtype)));
      kept.weights += info.elements();
    }
  }
  return kept;
}

void check_kept(const cmf::Source& source, const Kept& kept, Context& context) {
  if (kept.names.empty()) return;
  const std::string text =
      fmt::format("{} matrices are quantized already", kept.names.size());
  if (kept.rounded == 0) {
    fail(ErrorKind::kRefused,
         "{}: nothing can be rounded: {}, as {}; give the model in f32, f16 or bf16",
         source.path().string(), text, kept.names.front());
  }
  context.log.warn("{} and stay as they are: {}", text, name_list(kept.names));
}

/// The label is that of most weights; a record of GPTQ stays with the matrices that it describes.
cmf::Header rounded_header(const cmf::Source& source, codec::Codec profile, const Kept& kept) {
  cmf::Header header = source.header();
  cmf::Json& json = header.json();
  if (!json.contains("provenance") || !json["provenance"].is_object())
    json["provenance"] = cmf::Json::object();
  if (kept.rounded >= kept.weights) {
    json["quant_type"] = quant_type(profile);
    json["provenance"]["weight_quant"] = codec::codec_name(profile);
  }
  if (kept.names.empty()) json["provenance"].erase("gptq");
  json["provenance"]["rounding"] = {{"tool", "cortiq-quant"}, {"version", CORTIQ_VERSION}};
  return header;
}

/// What the run itself would refuse is refused before hours of calibration.
void check_before_measuring(const GptqOptions& wanted, Context& context) {
  NullLog quiet;
  Context silent{context.pool, quiet, context.interrupt};
  GptqOptions plain = wanted;
  plain.bits = {};
  GptqRun(plain, silent).prepare();
}

}  // namespace

fs::path derived_output(const fs::path& input, std::string_view codec) {
  fs::path base = fs::absolute(input).lexically_normal();
  if (!base.has_filename()) base = base.parent_path();
  std::string stem = fs::is_directory(base) ? base.filename().string() : base.stem().string();
  if (const auto shard = stem.rfind("-00001-of-"); shard != std::string::npos) stem.resize(shard);
  return base.parent_path() / fmt::format("{}-{}.cmf", stem, codec);
}

RunReport run_gptq(const GptqOptions& wanted, Context& context) {
  if (wanted.bits.given() && !wanted.resume) check_before_measuring(wanted, context);
  const GptqOptions options = wanted.bits.given() ? with_allocated_bits(wanted, context) : wanted;
  GptqRun run(options, context);
  run.prepare();
  if (options.dry_run) return std::move(run.report());
  RunReport report = run.execute();
  for (const fs::path& path : options.reports) write_report(report, path);
  return report;
}

RunReport run_quantize(const QuantizeOptions& options, Context& context) {
  const auto start = Clock::now();
  const auto source =
      open_source(options.input, options.sanitize ? NonFinite::kSanitize : NonFinite::kRefuse);
  for (const std::string& warning : source_warnings(*source)) context.log.warn("{}", warning);
  if (const std::string reason = refusal_to_quantize(*source); !reason.empty()) {
    fail(ErrorKind::kUnsupported, "{}: {}", options.input.string(), reason);
  }
  if (options.sanitize) {
    for (const std::string& problem : section_problems(*source)) context.log.warn("{}", problem);
  }
  const std::string_view codec = codec::codec_name(options.selection.profile);
  const fs::path output =
      options.output.empty() ? derived_output(options.input, codec) : options.output;
  RunPaths paths;
  paths.reads(source->files(), "input file");
  paths.reads(options.recipe_input, "input file");
  paths.writes(output, "output", {".partial"});
  if (!options.recipe.empty()) paths.writes(options.recipe, "recipe");
  paths.check();
  check_output_path(output, {});
  if (!options.recipe.empty()) check_output_path(options.recipe, {});
  cmf::Writer::check_partial(output);
  const Plan plan =
      plan_tensors(*source, options.selection, options.q1s_keep, options.sanitize, context);
  const Kept kept = kept_quantized(*source, plan);
  check_kept(*source, kept, context);
  context.log.info("plan: rounding to {}", codec);
  for (const std::string& line : plan_lines(plan, *source)) context.log.info("{}", line);
  RunReport report;
  report.command = "quantize";
  report.input = options.input.string();
  report.output = output.string();
  report.codec = codec;
  report.bytes_in = plan.input_bytes;
  const std::vector<DiskItem> disk{{"output", output, plan.output_bytes}};
  context.log.info("  disk: {}", disk_text(disk));
  check_disk(disk);
  if (options.dry_run) return report;
  report.tensors = initial_reports(*source, plan);
  const cmf::Header header = rounded_header(*source, options.selection.profile, kept);
  cmf::Writer writer(output, header, plan.output,
                     {source->masks(), source->vocab(), source->mask_index()});
  TensorJob job{*source, writer,
                plan,    report.tensors,
                {},      options.sanitize ? NonFinite::kSanitize : NonFinite::kRefuse,
                context};
  job.encode.q1s_keep = options.q1s_keep;
  write_plain_tensors(job);
  report.bytes_out = writer.finish(header);
  check_written(output, context.pool);
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  report.cpu_seconds = process_cpu_seconds();
  report.peak_memory_bytes = peak_resident_bytes();
  return report;
}

std::uint64_t run_convert(const fs::path& folder, const fs::path& output, cmf::DType dtype,
                          Context& context) {
  if (!hf::is_model_folder(folder)) {
    fail(ErrorKind::kInput, "{}: is no Hugging Face model folder; give a folder with config.json",
         folder.string());
  }
  const auto source = hf::Folder::open(folder, {dtype});
  for (const std::string& warning : source->warnings()) context.log.warn("{}", warning);
  RunPaths paths;
  paths.reads(source->files(), "input file");
  paths.writes(output, "output", {".partial"});
  paths.check();
  check_output_path(output, {});
  cmf::Writer::check_partial(output);
  std::vector<cmf::PlannedTensor> planned;
  for (const cmf::TensorInfo& info : source->tensors())
    planned.push_back({info.name, info.dtype, info.shape, info.nbytes});
  cmf::Writer writer(output, source->header(), planned,
                     {source->masks(), source->vocab(), source->mask_index()});
  const auto count = static_cast<std::int64_t>(planned.size());
  for (std::int64_t i = 0; i < count; ++i) {
    context.interrupt.check();
    const auto index = static_cast<std::size_t>(i);
    writer.write_tensor(index, source->payload(index).bytes());
    source->release(index);
    context.log.progress("converting", i + 1, count, "tensors");
  }
  const std::uint64_t bytes = writer.finish(source->header());
  check_written(output, context.pool);
  return bytes;
}

}  // namespace cortiq::pipeline
