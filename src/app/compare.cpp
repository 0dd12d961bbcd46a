// cortiq-quant compare: two files of one model, tensor by tensor.
#include "cortiq/pipeline/compare.hpp"

#include <cmath>

#include "command.hpp"
#include "cortiq/cmf/header.hpp"

namespace cortiq::app {
namespace {

struct Arguments {
  pipeline::CompareOptions options;
  bool json = false;
};

cmf::Json number(double value) { return std::isfinite(value) ? cmf::Json(value) : nullptr; }

cmf::Json comparison_json(const Arguments& arguments, const pipeline::Comparison& result) {
  cmf::Json tensors = cmf::Json::array();
  for (const pipeline::TensorComparison& tensor : result.tensors) {
    tensors.push_back(
        {{"name", tensor.name},
         {"a_dtype", tensor.first_dtype},
         {"b_dtype", tensor.second_dtype},
         {"weights", tensor.weights},
         {"unequal", tensor.unequal},
         {"weight_error", number(tensor.weight_error())},
         {"largest_difference", tensor.largest},
         {"output_error", tensor.output_error ? cmf::Json(*tensor.output_error) : nullptr}});
  }
  cmf::Json json{{"a", arguments.options.first.string()},
                 {"b", arguments.options.second.string()},
                 {"tensors", std::move(tensors)},
                 {"only_in_a", result.only_in_first},
                 {"only_in_b", result.only_in_second},
                 {"weight_error", number(result.weight_error)}};
  if (arguments.options.hessians) {
    json["hessians"] = arguments.options.hessians->string();
    json["without_hessian"] = result.without_hessian;
    json["mean_output_error"] =
        result.mean_output_error ? cmf::Json(*result.mean_output_error) : nullptr;
  }
  return json;
}

std::string only_in(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("  {:<50} only in {}\n", name, path.string());
  return text;
}

std::string comparison_text(const Arguments& arguments, const pipeline::Comparison& result) {
  const bool outputs = arguments.options.hessians.has_value();
  std::string text = fmt::format("  {:<50} {:<10} {:<10} {:>12} {:>12}{}\n", "tensor", "A", "B",
                                 "weight error", "largest", outputs ? "  output error" : "");
  for (const pipeline::TensorComparison& tensor : result.tensors) {
    text += fmt::format("  {:<50} {:<10} {:<10} {:>12.3e} {:>12.3e}", tensor.name,
                        tensor.first_dtype, tensor.second_dtype, tensor.weight_error(),
                        tensor.largest);
    if (tensor.output_error) text += fmt::format("  {:>12.3e}", *tensor.output_error);
    text += tensor.unequal == 0 ? "  equal\n" : "\n";
  }
  text += only_in(arguments.options.first, result.only_in_first);
  text += only_in(arguments.options.second, result.only_in_second);
  text += fmt::format("weight error {:.3e} over all tensors", result.weight_error);
  if (result.mean_output_error) {
    text += fmt::format("; output error {:.3e} (geometric mean)", *result.mean_output_error);
  }
  if (outputs) text += fmt::format("; {} matrices without a Hessian", result.without_hessian);
  return text + "\n";
}

int execute(const Arguments& arguments, const CommonOptions& common) {
  if (arguments.options.hessians_force && !arguments.options.hessians)
    fail(ErrorKind::kUsage, "--hessians-force: has an effect only together with --hessians");
  Session session(common);
  const pipeline::Comparison result = pipeline::run_compare(arguments.options, session.context());
  if (arguments.json) {
    print_json(comparison_json(arguments, result));
  } else {
    print(comparison_text(arguments, result));
  }
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand(
      "compare", "Weight error per tensor between two files of one model, and output error");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("A", arguments->options.first, "Reference: CMF file or Hugging Face folder")
      ->required();
  command->add_option("B", arguments->options.second, "Judged against it")->required();
  command->add_option("--hessians", arguments->options.hessians,
                      "CMFHESS1 cache of A or B: adds the output error on its text");
  command->add_flag("--hessians-force", arguments->options.hessians_force,
                    "Use a cache although it belongs to another model");
  command->add_flag("--json", arguments->json, "Result as JSON");
  command->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute(*arguments, common); };
  });
}

}  // namespace cortiq::app
