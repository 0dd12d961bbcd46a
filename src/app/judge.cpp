// cortiq-quant ppl and kld: how good a model is on a text.
#include "command.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "model_options.hpp"

namespace cortiq::app {
namespace {

struct Arguments {
  std::filesystem::path model;
  std::filesystem::path test;
  pipeline::JudgeOptions options;
  std::string bos = "off";
  bool json = false;
};

void add_judge_options(CLI::App& command, Arguments& arguments) {
  command.add_option("TEXT", arguments.options.text, "Plain text file")
      ->required()
      ->check(CLI::ExistingFile);
  command.add_option("--window", arguments.options.window, "Tokens per context (default 256, or the model's maximum if less)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 24));
  command
      .add_option("--stride", arguments.options.stride,
                  "Tokens between windows (default: the window)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  command
      .add_option("--tokens", arguments.options.tokens,
                  "Use only the first N tokens of the text (0 = all)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command.add_option("--bos", arguments.bos, "BOS token in front of each window: auto, on, off")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  command.add_flag("--json", arguments.json, "Result as JSON");
}

int execute_ppl(const Arguments& arguments, const CommonOptions& common) {
  Session session(common);
  pipeline::JudgeOptions options = arguments.options;
  options.bos = parse_bos(arguments.bos);
  const model::Perplexity result =
      pipeline::run_perplexity(arguments.model, options, session.context());
  if (arguments.json) {
    const cmf::Json json{{"model", arguments.model.string()}, {"text", options.text.string()},
                         {"perplexity", result.perplexity},   {"mean_nll", result.mean_nll},
                         {"tokens", result.tokens},           {"window", result.window}};
    print_json(json);
  } else {
    print(
        fmt::format("perplexity {:.4f} over {} tokens (mean negative log-likelihood {:.6f} nats)\n",
                    result.perplexity, result.tokens, result.mean_nll));
  }
  return 0;
}

int execute_kld(const Arguments& arguments, const CommonOptions& common) {
  Session session(common);
  pipeline::JudgeOptions options = arguments.options;
  options.bos = parse_bos(arguments.bos);
  const model::Divergence result =
      pipeline::run_divergence(arguments.model, arguments.test, options, session.context());
  if (arguments.json) {
    const cmf::Json json{{"base", arguments.model.string()},
                         {"test", arguments.test.string()},
                         {"text", options.text.string()},
                         {"mean_kl", result.mean_kl},
                         {"median_kl", result.median_kl},
                         {"p99_kl", result.p99_kl},
                         {"top1_agreement", result.top1_agreement},
                         {"base_perplexity", result.base_perplexity},
                         {"test_perplexity", result.test_perplexity},
                         {"tokens", result.tokens},
                         {"window", result.window}};
    print_json(json);
  } else {
    print(fmt::format(
        "mean KL {:.6f} nats, median {:.6f}, 99th percentile {:.6f}, top-1 agreement {:.2f} %\n"
        "perplexity {:.4f} -> {:.4f} over {} tokens\n",
        result.mean_kl, result.median_kl, result.p99_kl, 100 * result.top1_agreement,
        result.base_perplexity, result.test_perplexity, result.tokens));
  }
  return 0;
}

}  // namespace

void add_ppl(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("ppl", "Perplexity of a model on a text");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("MODEL", arguments->model, "CMF file or Hugging Face folder")->required();
  add_judge_options(*command, *arguments);
  command->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_ppl(*arguments, common); };
  });
}

void add_kld(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand(
      "kld", "Kullback-Leibler divergence of a quantized model from its original");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("BASE", arguments->model, "Original: CMF file or Hugging Face folder")
      ->required();
  command->add_option("TEST", arguments->test, "Quantized model")->required();
  add_judge_options(*command, *arguments);
  command->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_kld(*arguments, common); };
  });
}

}  // namespace cortiq::app
