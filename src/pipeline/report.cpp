// Totals, closing table and JSON of a run.
#include "cortiq/pipeline/report.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cortiq/support/file.hpp"
#include "report_experts.hpp"

namespace cortiq::pipeline {
namespace {

using cmf::Json;

constexpr std::size_t kMostRows = 48;  ///< more tensors than this are shown by kind

const char* action_name(Action action) {
  switch (action) {
    case Action::kGptq:
      return "gptq";
    case Action::kRound:
      return "rounded";
    case Action::kCopy:
      break;
  }
  return "copied";
}

/// Name without its layer (and expert) number: the kind of a tensor.
std::string kind_of(const std::string& name) {
  std::string kind;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool number =
        std::isdigit(static_cast<unsigned char>(name[i])) != 0 && i > 0 && name[i - 1] == '.';
    if (!number) {
      kind += name[i];
      continue;
    }
    kind += '*';
    while (i + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0) ++i;
  }
  return kind;
}

struct Kind {
  std::string codec;
  std::int64_t tensors = 0;
  double log_error = 0;
  double log_rtn = 0;
  std::int64_t measured = 0;
  double seconds = 0;
};

void add_error(Kind& kind, const TensorReport& tensor) {
  if (!tensor.error || !tensor.rtn_error || !(*tensor.error > 0) || !(*tensor.rtn_error > 0))
    return;
  kind.log_error += std::log(*tensor.error);
  kind.log_rtn += std::log(*tensor.rtn_error);
  ++kind.measured;
}

std::string row(const std::string& name, const std::string& codec, std::int64_t tensors,
                const Kind& kind) {
  if (kind.measured == 0) return fmt::format("  {:<50} {:<6} {:>4}", name, codec, tensors);
  const double error = std::exp(kind.log_error / static_cast<double>(kind.measured));
  const double rtn = std::exp(kind.log_rtn / static_cast<double>(kind.measured));
  return fmt::format("  {:<50} {:<6} {:>4}  {:>10.3e}  {:>10.3e}  {:>5.3f}  {:>7.2f}", name, codec,
                     tensors, error, rtn, error / rtn, kind.seconds);
}

std::vector<std::string> error_rows(const RunReport& report) {
  const bool by_kind = report.gptq_count() > static_cast<std::int64_t>(kMostRows);
  std::vector<std::string> order;
  std::map<std::string, Kind> kinds;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.action != Action::kGptq) continue;
    const std::string name = by_kind ? kind_of(tensor.name) : tensor.name;
    const auto [position, fresh] = kinds.try_emplace(name + " " + tensor.codec);
    if (fresh) order.push_back(position->first);
    position->second.codec = tensor.codec;
    ++position->second.tensors;
    position->second.seconds += tensor.seconds;
    add_error(position->second, tensor);
  }
  std::vector<std::string> lines;
  if (order.empty()) return lines;
  lines.push_back(fmt::format("  {:<50} {:<6} {:>4}  {:>10}  {:>10}  {:>5}  {:>7}",
                              by_kind ? "kind of tensor (geometric means)" : "tensor", "codec", "n",
                              "error", "rounding", "ratio", "seconds"));
  for (const std::string& key : order) {
    const Kind& kind = kinds[key];
    lines.push_back(
        row(key.substr(0, key.size() - kind.codec.size() - 1), kind.codec, kind.tensors, kind));
  }
  return lines;
}

Json tensor_json(const TensorReport& tensor) {
  Json json{{"name", tensor.name},           {"action", action_name(tensor.action)},
            {"codec", tensor.codec},         {"rows", tensor.rows},
            {"cols", tensor.cols},           {"bytes_in", tensor.bytes_in},
            {"bytes_out", tensor.bytes_out}, {"seconds", tensor.seconds}};
  if (!tensor.note.empty()) json["note"] = tensor.note;
  if (tensor.missed) json["missed"] = true;
  if (tensor.sanitized > 0) json["sanitized"] = tensor.sanitized;
  if (!tensor.codes.empty()) json["codes"] = tensor.codes;
  if (tensor.action != Action::kGptq) return json;
  json["hessian_rows"] = tensor.hessian_rows;
  if (tensor.prior_rows > 0) json["prior_rows"] = tensor.prior_rows;
  json["lambda"] = tensor.lambda;
  json["retries"] = tensor.retries;
  json["identity"] = tensor.identity;
  json["backend"] = tensor.backend;
  if (!tensor.backend_note.empty()) json["backend_note"] = tensor.backend_note;
  json["dead_channels"] = tensor.dead_channels;
  json["error"] = tensor.error ? Json(*tensor.error) : Json(nullptr);
  json["rtn_error"] = tensor.rtn_error ? Json(*tensor.rtn_error) : Json(nullptr);
  return json;
}

}  // namespace

std::int64_t RunReport::gptq_count() const {
  return std::count_if(tensors.begin(), tensors.end(), [](const TensorReport& t) {
    return t.action == Action::kGptq && !t.missed;
  });
}

std::int64_t RunReport::missed_count() const {
  return std::count_if(tensors.begin(), tensors.end(),
                       [](const TensorReport& t) { return t.missed; });
}

std::optional<double> RunReport::mean_error_ratio() const {
  Kind all;
  for (const TensorReport& tensor : tensors) add_error(all, tensor);
  if (all.measured == 0) return std::nullopt;
  return std::exp((all.log_error - all.log_rtn) / static_cast<double>(all.measured));
}

std::vector<std::string> closing_table(const RunReport& report) {
  std::vector<std::string> lines = error_rows(report);
  if (const auto ratio = report.mean_error_ratio()) {
    lines.push_back(fmt::format(
        "output error against rounding with the same codec: {:.3f} (geometric mean of {} matrices)",
        *ratio, report.gptq_count()));
  }
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.missed)
      lines.push_back(
          fmt::format("missed: {} was {}: {}", tensor.name,
                      tensor.action == Action::kCopy ? "copied" : "rounded",
                      tensor.note.empty() ? "its Hessian did not factor" : tensor.note));
    if (tensor.sanitized > 0) {
      lines.push_back(fmt::format("sanitized: {}: {} non-finite weights set to zero", tensor.name,
                                  tensor.sanitized));
    }
  }
  for (std::string& line : expert_lines(report)) lines.push_back(std::move(line));
  for (const std::string& warning : report.warnings) lines.push_back("warning: " + warning);
  std::string phases;
  for (const PhaseTime& phase : report.phases)
    phases += fmt::format("{}{} {:.1f} s", phases.empty() ? "" : ", ", phase.name, phase.seconds);
  if (!phases.empty()) lines.push_back("time: " + phases);
  lines.push_back(fmt::format("total {:.1f} s, {:.1f} CPU s, peak memory {:.0f} MB", report.seconds,
                              report.cpu_seconds,
                              static_cast<double>(report.peak_memory_bytes) / 1e6));
  std::string size = fmt::format("size {} -> {} bytes", report.bytes_in, report.bytes_out);
  if (report.bits_per_weight > 0)
    size += fmt::format("; {:.3f} bits per weight in all, {:.3f} in the matrices without embedding and head",
                        report.bits_per_weight, report.layer_bits_per_weight);
  lines.push_back(std::move(size));
  if (report.perplexity_before && report.perplexity_after) {
    lines.push_back(fmt::format("perplexity {:.3f} -> {:.3f}", *report.perplexity_before,
                                *report.perplexity_after));
  }
  return lines;
}

Json report_json(const RunReport& report) {
  Json json{{"tool", "cortiq-quant"},
            {"version", CORTIQ_VERSION},
            {"command", report.command},
            {"input", report.input},
            {"output", report.output},
            {"codec", report.codec},
            {"options", report.options},
            {"bytes_in", report.bytes_in},
            {"bytes_out", report.bytes_out},
            {"bits_per_weight", report.bits_per_weight},
            {"layer_bits_per_weight", report.layer_bits_per_weight},
            {"seconds", report.seconds},
            {"cpu_seconds", report.cpu_seconds},
            {"peak_memory_bytes", report.peak_memory_bytes},
            {"gptq_tensors", report.gptq_count()},
            {"missed", report.missed_count()}};
  if (!report.device.is_null()) json["device"] = report.device;
  if (const auto ratio = report.mean_error_ratio()) json["error_ratio_to_rounding"] = *ratio;
  if (report.command == "gptq") {
    json["calibration"] = {{"hessians", report.hessians},
                           {"tokens_wanted", report.tokens_wanted},
                           {"tokens_used", report.tokens_used},
                           {"window", report.window},
                           {"windows", report.windows}};
    for (const auto& source : report.sources) {
      json["calibration"]["sources"].push_back({{"file", source.file},
                                                {"sha256", source.sha256},
                                                {"share", source.share},
                                                {"tokens_wanted", source.tokens_wanted},
                                                {"tokens_used", source.tokens_used},
                                                {"tokens_dropped", source.tokens_dropped},
                                                {"lines_skipped", source.lines_skipped}});
    }
  }
  if (report.perplexity_before) json["perplexity"]["before"] = *report.perplexity_before;
  if (report.perplexity_after) json["perplexity"]["after"] = *report.perplexity_after;
  for (const PhaseTime& phase : report.phases)
    json["phases"].push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  if (Json experts = expert_json(report); !experts.empty())
    json["expert_rows"] = std::move(experts);
  json["warnings"] = report.warnings;
  json["tensors"] = Json::array();
  for (const TensorReport& tensor : report.tensors) json["tensors"].push_back(tensor_json(tensor));
  return json;
}

void check_report_path(const std::filesystem::path& path) {
  if (path.extension() == ".json" || path.extension() == ".html") return;
  fail(ErrorKind::kUsage, "--report {}: the name must end in .json or .html", path.string());
}

void write_report(const RunReport& report, const std::filesystem::path& path) {
  check_report_path(path);
  write_text_file(
      path, path.extension() == ".html"
                ? report_html(report)
                : report_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace cortiq::pipeline
