#include "model_options.hpp"

#include <algorithm>

namespace cortiq::app {
namespace {

using codec::Codec;

bool below_eight_bits(Codec codec) {
  switch (codec) {
    case Codec::kF32:
    case Codec::kF16:
    case Codec::kBf16:
    case Codec::kQ8Row:
    case Codec::kQ82f:
      return false;
    default:
      return true;
  }
}

}  // namespace

void add_selection(CLI::App& command, SelectionArguments& arguments) {
  command
      .add_option("--embeddings", arguments.embeddings,
                  "Codec of embedding and head: q8_2f, f16 or profile (default q8_2f where the "
                  "profile has fewer bits)")
      ->check(CLI::IsMember({"q8_2f", "f16", "profile"}));
  command
      .add_option("--tensor-quant", arguments.tensor_quant,
                  "PATTERN=CODEC for single tensors; * is the only wildcard; first match wins")
      ->type_name("PATTERN=CODEC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

pipeline::SelectionOptions parse_selection(const SelectionArguments& arguments) {
  pipeline::SelectionOptions selection;
  const auto codec = codec::try_parse_codec(arguments.codec);
  if (!codec) {
    fail(ErrorKind::kUsage, "--codec {}: unknown codec; expected one of {}", arguments.codec,
         codec::codec_names());
  }
  selection.profile = *codec;
  if (arguments.embeddings == "f16") {
    selection.embeddings = pipeline::Embeddings::kF16;
  } else if (arguments.embeddings == "profile" ||
             (arguments.embeddings.empty() && !below_eight_bits(*codec))) {
    selection.embeddings = pipeline::Embeddings::kProfile;
  }
  for (const std::string& text : arguments.tensor_quant)
    selection.overrides.push_back(codec::parse_override(text));
  return selection;
}

pipeline::Bos parse_bos(const std::string& text) {
  if (text == "on") return pipeline::Bos::kOn;
  return text == "auto" ? pipeline::Bos::kAuto : pipeline::Bos::kOff;
}

void add_calibration(CLI::App& command, CalibrationArguments& arguments) {
  command
      .add_option("--calib", arguments.sources,
                  "Calibration text .txt, .jsonl or .json, or teacher data .tdata[:SPLIT]; "
                  "repeatable; =SHARE weighs sources (default: built-in corpus)")
      ->type_name("PATH[=SHARE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--tokens", arguments.options.tokens,
                  "Calibration tokens (default 32768; 131072 for q2tp)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 40));
  command
      .add_option("--window", arguments.options.window,
                  "Tokens per context (default 2048 or the model's maximum)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 24));
  command.add_option("--bos", arguments.bos, "BOS token in front of each window: auto, on, off")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  command
      .add_option("--verify-tdata", arguments.verify_teacher,
                  "Check all records and hashes of teacher data first: on (default) or off")
      ->check(CLI::IsMember({"on", "off"}));
  command
      .add_option("--spill", arguments.options.spill_folder,
                  "Folder for the hidden states instead of memory")
      ->check(CLI::ExistingDirectory);
}

pipeline::CalibrationOptions parse_calibration(const CalibrationArguments& arguments) {
  pipeline::CalibrationOptions options = arguments.options;
  for (const std::string& text : arguments.sources)
    options.sources.push_back(calib::parse_source_spec(text));
  calib::check_shares(options.sources);
  options.bos = parse_bos(arguments.bos);
  const bool teacher = std::any_of(
      options.sources.begin(), options.sources.end(),
      [](const calib::SourceSpec& source) { return source.is_teacher_data(); });
  if (!arguments.verify_teacher.empty() && !teacher)
    fail(ErrorKind::kUsage, "--verify-tdata: has an effect only with teacher data (--calib *.tdata)");
  options.verify_teacher = arguments.verify_teacher != "off";
  return options;
}

}  // namespace cortiq::app
