// cortiq-quant inspect and verify: what a CMF file holds, and whether it is intact.
#include "command.hpp"
#include "cortiq/cmf/summary.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "cortiq/pipeline/options.hpp"

namespace cortiq::app {
namespace {

struct Arguments {
  std::filesystem::path model;
  bool json = false;
  bool tensors = false;
  bool header = false;
};

/// Mean over the matrices without embedding and head, as --target-bpw counts; 0 = none.
double layer_bits_per_weight(const cmf::Summary& summary) {
  double bits = 0, weights = 0;
  for (const auto& tensor : summary.tensors) {
    if (tensor.shape.size() != 2 || codec::is_vocabulary_edge(tensor.name)) continue;
    bits += 8.0 * static_cast<double>(tensor.nbytes);
    weights += static_cast<double>(tensor.shape[0]) * static_cast<double>(tensor.shape[1]);
  }
  return weights > 0 ? bits / weights : 0;
}

cmf::Json summary_json(const cmf::Reader& reader, const cmf::Summary& summary) {
  cmf::Json json{{"path", reader.path().string()},
                 {"arch", summary.arch_name},
                 {"quant_type", summary.quant_type},
                 {"layers", summary.layers},
                 {"features", summary.features},
                 {"file_bytes", summary.file_bytes},
                 {"payload_bytes", summary.payload_bytes},
                 {"weights", summary.elements},
                 {"bits_per_weight", summary.bits_per_weight},
                 {"matrix_bits_per_weight", summary.matrix_bits_per_weight},
                 {"layer_bits_per_weight", layer_bits_per_weight(summary)},
                 {"masks", summary.masks},
                 {"skills", summary.skills},
                 {"vocab_bytes", summary.vocab_bytes}};
  for (const auto& section : summary.sections) {
    json["sections"].push_back({{"file", section.file},
                                {"name", section.name},
                                {"offset", section.offset},
                                {"bytes", section.nbytes}});
  }
  for (const auto& dtype : summary.dtypes) {
    json["dtypes"].push_back({{"dtype", cmf::dtype_name(dtype.dtype)},
                              {"tensors", dtype.tensors},
                              {"weights", dtype.elements},
                              {"bytes", dtype.nbytes}});
  }
  for (const auto& tensor : summary.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", cmf::dtype_name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"file", tensor.file},
                               {"offset", tensor.offset},
                               {"bytes", tensor.nbytes},
                               {"hash", fmt::format("{:016x}", tensor.hash)}});
  }
  json["header"] = reader.header().json();
  json["problems"] = cmf::section_problems(reader);
  return json;
}

std::string summary_text(const cmf::Reader& reader, const cmf::Summary& summary,
                         const Arguments& arguments) {
  std::string text = fmt::format(
      "{}: {} with {} layers, {} weights, {} bytes, {:.3f} bits per weight (matrices {:.3f}, "
      "without embedding and head {:.3f}), label {}\n",
      reader.path().string(), summary.arch_name, summary.layers, summary.elements,
      summary.file_bytes, summary.bits_per_weight, summary.matrix_bits_per_weight,
      layer_bits_per_weight(summary), summary.quant_type);
  for (const auto& section : summary.sections) {
    text += fmt::format("  section {:<10} offset {:>14} bytes {:>14}  {}\n", section.name,
                        section.offset, section.nbytes, section.file);
  }
  for (const auto& dtype : summary.dtypes) {
    text += fmt::format("  dtype {:<10} {:>6} tensors {:>15} weights {:>15} bytes\n",
                        cmf::dtype_name(dtype.dtype), dtype.tensors, dtype.elements, dtype.nbytes);
  }
  if (!summary.masks.empty()) text += fmt::format("  masks: {}\n", fmt::join(summary.masks, ", "));
  if (summary.skills > 0) text += fmt::format("  skills: {}\n", summary.skills);
  if (reader.header().json().contains("provenance")) {
    text += "  provenance: " + reader.header().json()["provenance"].dump() + "\n";
  }
  if (arguments.tensors) {
    for (const auto& tensor : summary.tensors) {
      text += fmt::format("  {:<60} {:<8} [{}] offset {} bytes {} hash {:016x}\n", tensor.name,
                          cmf::dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "),
                          tensor.offset, tensor.nbytes, tensor.hash);
    }
  }
  if (arguments.header) text += reader.header().json().dump(2) + "\n";
  for (const std::string& warning : reader.warnings()) text += "  warning: " + warning + "\n";
  for (const std::string& problem : cmf::section_problems(reader))
    text += "  warning: " + problem + "\n";
  return text;
}

/// A folder has no sections; its tensors and header are shown as `convert` would write them.
std::string folder_text(const cmf::Source& source, const Arguments& arguments) {
  std::uint64_t bytes = 0;
  std::int64_t weights = 0;
  for (const auto& tensor : source.tensors()) {
    bytes += tensor.nbytes;
    weights += tensor.elements();
  }
  std::string text = fmt::format(
      "{}: Hugging Face folder, {} with {} tensors, {} weights, {} bytes as CMF payload\n",
      source.path().string(), source.header().arch_name(), source.tensors().size(), weights, bytes);
  if (arguments.tensors) {
    for (const auto& tensor : source.tensors()) {
      text +=
          fmt::format("  {:<60} {:<8} [{}] bytes {}\n", tensor.name, cmf::dtype_name(tensor.dtype),
                      fmt::join(tensor.shape, ", "), tensor.nbytes);
    }
  }
  if (arguments.header) text += source.header().json().dump(2) + "\n";
  return text;
}

int execute_inspect(const Arguments& arguments) {
  // As it is: what is damaged is said below, and must not hide the rest.
  const auto source = pipeline::open_source(arguments.model, pipeline::NonFinite::kSanitize);
  const auto* reader = dynamic_cast<const cmf::Reader*>(source.get());
  if (reader == nullptr) {
    if (arguments.json) {
      cmf::Json json{{"path", arguments.model.string()}, {"arch", source->header().arch_name()}};
      for (const auto& tensor : source->tensors()) {
        json["tensors"].push_back({{"name", tensor.name},
                                   {"dtype", cmf::dtype_name(tensor.dtype)},
                                   {"shape", tensor.shape},
                                   {"bytes", tensor.nbytes}});
      }
      json["header"] = source->header().json();
      print_json(json);
    } else {
      print(folder_text(*source, arguments));
    }
    return 0;
  }
  const cmf::Summary summary = cmf::summarize(*reader);
  if (arguments.json) {
    print_json(summary_json(*reader, summary));
  } else {
    print(summary_text(*reader, summary, arguments));
  }
  return 0;
}

int execute_verify(const Arguments& arguments, const CommonOptions& common) {
  Session session(common);
  const auto reader = cmf::Reader::open(arguments.model, cmf::Reader::Hashes::kIgnore);
  const cmf::VerifyReport report = cmf::verify(*reader, session.context().pool);
  if (arguments.json) {
    const cmf::Json json{{"path", arguments.model.string()}, {"intact", report.problems.empty()},
                         {"tensors", report.tensors},        {"bytes", report.bytes},
                         {"problems", report.problems},      {"warnings", report.warnings}};
    print_json(json);
  } else {
    for (const std::string& warning : report.warnings) session.context().log.warn("{}", warning);
    for (const std::string& problem : report.problems) print(problem + "\n");
  }
  if (!report.problems.empty()) {
    fail(ErrorKind::kInput, "{}: damaged ({} problems, listed above); copy or convert it again",
         arguments.model.string(), report.problems.size());
  }
  if (!arguments.json)
    print(fmt::format("✓ {}: {} tensors, {} bytes, all hashes match\n", arguments.model.string(),
                      report.tensors, report.bytes));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, const CommonOptions&, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a model holds");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("MODEL", arguments->model, "CMF file (shard 1 opens all) or Hugging Face folder")
      ->required();
  command->add_flag("--tensors", arguments->tensors, "List every tensor");
  command->add_flag("--header", arguments->header, "Print the header JSON");
  command->add_flag("--json", arguments->json, "Everything as JSON");
  command->callback(
      [arguments, &action] { action = [arguments] { return execute_inspect(*arguments); }; });
}

void add_verify(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("verify", "Check all hashes of a CMF file");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("MODEL", arguments->model, "CMF file (shard 1 opens all)")->required();
  command->add_flag("--json", arguments->json, "Result as JSON");
  command->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_verify(*arguments, common); };
  });
}

}  // namespace cortiq::app
