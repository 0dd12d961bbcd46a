// The HTML page of a run: one file, no scripts from elsewhere, readable without a network.
#include <algorithm>
#include <map>

#include "cortiq/pipeline/report.hpp"
#include "report_svg.hpp"

namespace cortiq::pipeline {
namespace {

constexpr const char* kStyle = R"(
:root{--ink:#1d2530;--soft:#5b6675;--line:#d9dee5;--bg:#fff;--card:#f5f7fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#333c47;--bg:#14181d;--card:#1c222a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--bg);max-width:1000px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin:0}h2{font-size:1.15em;margin:2em 0 .5em}p{margin:.4em 0;color:var(--soft)}
.cards{display:flex;flex-wrap:wrap;gap:.7em;margin:1.2em 0}.card{background:var(--card);border-radius:8px;padding:.6em 1em;min-width:8em}
.card b{display:block;font-size:1.25em;font-weight:600}.card span{color:var(--soft);font-size:.85em}
table{border-collapse:collapse;width:100%;font-size:.85em;font-variant-numeric:tabular-nums}
th,td{padding:.3em .5em;border-bottom:1px solid var(--line);text-align:right}th:first-child,td:first-child,td.t,th.t{text-align:left}td{white-space:nowrap}td:last-child{white-space:normal}
th{position:sticky;top:0;background:var(--bg)}.wrap{overflow-x:auto}.warn{color:#b4540a}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line)}polyline{fill:none;stroke-width:1.6}
.c0{stroke:#2a6fdb;fill:#2a6fdb}.c1{stroke:#d9534f;fill:#d9534f}.c2{stroke:#2e9e5b;fill:#2e9e5b}.c3{stroke:#9b59b6;fill:#9b59b6}
.c4{stroke:#e08e0b;fill:#e08e0b}.c5{stroke:#17a2b8;fill:#17a2b8}.c6{stroke:#8d6e63;fill:#8d6e63}.c7{stroke:#7a8794;fill:#7a8794}
rect{stroke:none}polyline{fill:none!important}circle{stroke:none})";

std::string card(const std::string& value, const std::string& label) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>", html_escape(value),
                     html_escape(label));
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string cards(const RunReport& report) {
  std::string html = "<div class=\"cards\">";
  html += card(report.codec, "codec profile");
  html +=
      card(fmt::format("{} → {}", megabytes(report.bytes_in), megabytes(report.bytes_out)), "size");
  if (report.perplexity_before && report.perplexity_after) {
    html +=
        card(fmt::format("{:.3f} → {:.3f}", *report.perplexity_before, *report.perplexity_after),
             "perplexity");
  }
  if (const auto ratio = report.mean_error_ratio())
    html += card(fmt::format("{:.3f}×", *ratio), "output error against rounding");
  html += card(fmt::format("{}", report.gptq_count()), "matrices quantized with GPTQ");
  if (report.missed_count() > 0)
    html += card(fmt::format("{}", report.missed_count()), "missed");
  if (report.tokens_used > 0)
    html += card(fmt::format("{}", report.tokens_used), "calibration tokens");
  html += card(fmt::format("{:.1f} s", report.seconds),
               fmt::format("{:.1f} CPU s", report.cpu_seconds));
  html += card(megabytes(report.peak_memory_bytes), "peak memory");
  return html + "</div>";
}

/// Layer number in a name, -1 if it has none.
std::int64_t layer_of(const std::string& name) {
  const auto at = name.find("layers.");
  if (at == std::string::npos || at + 7 >= name.size()) return -1;
  std::int64_t layer = 0;
  std::size_t i = at + 7;
  if (name[i] < '0' || name[i] > '9') return -1;
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i)
    layer = layer * 10 + (name[i] - '0');
  return layer;
}

/// "q_proj" of "model.layers.3.self_attn.q_proj.weight".
std::string short_kind(const std::string& name) {
  std::string stem = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  const auto dot = stem.rfind('.');
  return dot == std::string::npos ? stem : stem.substr(dot + 1);
}

std::string error_chart(const RunReport& report) {
  std::vector<LineSeries> series;
  std::map<std::string, std::size_t> position;
  for (const TensorReport& tensor : report.tensors) {
    const std::int64_t layer = layer_of(tensor.name);
    if (!tensor.error || !(*tensor.error > 0) || layer < 0) continue;
    const auto [at, fresh] = position.try_emplace(short_kind(tensor.name), series.size());
    if (fresh) series.push_back({at->first, {}});
    series[at->second].points.emplace_back(static_cast<double>(layer), *tensor.error);
  }
  for (LineSeries& line : series) std::sort(line.points.begin(), line.points.end());
  return line_chart(series, "layer", "relative output error");
}

std::string code_charts(const RunReport& report) {
  std::string html;
  for (const std::size_t levels : {std::size_t{16}, std::size_t{4}}) {
    std::vector<double> counts(levels, 0);
    for (const TensorReport& tensor : report.tensors) {
      if (tensor.codes.size() != levels) continue;
      for (std::size_t i = 0; i < levels; ++i) counts[i] += static_cast<double>(tensor.codes[i]);
    }
    std::vector<std::pair<std::string, double>> bars;
    for (std::size_t i = 0; i < levels; ++i) {
      const double level = levels == 16 ? static_cast<double>(i) - 8 : static_cast<double>(i) - 1.5;
      bars.emplace_back(fmt::format("{:+g}", level), counts[i]);
    }
    const std::string chart = bar_chart(bars, "codes used");
    if (!chart.empty())
      html += fmt::format("<h2>Codes used, {}</h2>{}", levels == 16 ? "q4tp" : "q2tp", chart);
  }
  return html;
}

std::string number(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : std::string("–");
}

std::string tensor_row(const TensorReport& tensor) {
  std::optional<double> ratio;
  if (tensor.error && tensor.rtn_error && *tensor.rtn_error > 0)
    ratio = *tensor.error / *tensor.rtn_error;
  const char* action = tensor.action == Action::kGptq    ? "GPTQ"
                       : tensor.action == Action::kRound ? "rounded"
                                                         : "copied";
  std::string note = tensor.note;
  if (tensor.retries > 0)
    note += fmt::format("{}damping {:g}", note.empty() ? "" : "; ", tensor.lambda);
  if (tensor.dead_channels > 0)
    note += fmt::format("{}{} dead channels", note.empty() ? "" : "; ", tensor.dead_channels);
  if (tensor.sanitized > 0)
    note += fmt::format("{}{} weights set to zero", note.empty() ? "" : "; ", tensor.sanitized);
  return fmt::format(
      "<tr{}><td>{}</td><td class=\"t\">{}</td><td "
      "class=\"t\">{}</td><td>{}×{}</td><td>{}</td><td>{}</td><td>{}</td>"
      "<td>{}</td><td>{:.2f}</td><td class=\"t\">{}</td></tr>",
      tensor.missed ? " class=\"warn\"" : "", html_escape(tensor.name), html_escape(tensor.codec),
      action, tensor.rows, tensor.cols, tensor.bytes_out, number(tensor.error, "{:.3e}"),
      number(tensor.rtn_error, "{:.3e}"), number(ratio, "{:.3f}"), tensor.seconds,
      html_escape(note));
}

std::string tensor_table(const RunReport& report) {
  std::string html =
      "<div class=\"wrap\"><table><tr><th>tensor</th><th class=\"t\">codec</th><th "
      "class=\"t\">how</th><th>shape</th><th>bytes</th>"
      "<th>error</th><th>rounding</th><th>ratio</th><th>seconds</th><th class=\"t\">note</th></tr>";
  for (const TensorReport& tensor : report.tensors) html += tensor_row(tensor);
  return html + "</table></div>";
}

std::string source_list(const RunReport& report) {
  std::string html;
  for (const auto& source : report.sources) {
    html += fmt::format("<p>{}: share {:g}, {} of {} tokens, sha256 {}</p>",
                        html_escape(source.file), source.share, source.tokens_used,
                        source.tokens_wanted, html_escape(source.sha256));
  }
  return html;
}

}  // namespace

std::string report_html(const RunReport& report) {
  std::string html =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>";
  html += html_escape(report.output) + "</title><style>" + kStyle + "</style></head><body>";
  html += fmt::format("<h1>{}</h1><p>made from {} by cortiq-quant {} {}</p>",
                      html_escape(report.output), html_escape(report.input), CORTIQ_VERSION,
                      html_escape(report.command));
  html += cards(report);
  for (const std::string& warning : report.warnings)
    html += "<p class=\"warn\">" + html_escape(warning) + "</p>";
  html +=
      "<h2>Output error per layer</h2><p>tr(ΔHΔᵀ)/tr(WHWᵀ): the share of a matrix's output on the "
      "calibration text that "
      "quantization changes.</p>" +
      error_chart(report);
  html += code_charts(report);
  std::vector<std::pair<std::string, double>> phases;
  for (const PhaseTime& phase : report.phases) phases.emplace_back(phase.name, phase.seconds);
  html += "<h2>Time per phase</h2>" + stacked_bar(phases, "s");
  html += "<h2>Tensors</h2>" + tensor_table(report);
  html += "<h2>Calibration</h2>" + source_list(report);
  html += fmt::format(
      "<p>Hessians: {}; window {}; options: {}</p>",
      html_escape(report.hessians.empty() ? "none" : report.hessians), report.window,
      html_escape(report.options.dump(-1, ' ', false, cmf::Json::error_handler_t::replace)));
  return html + "</body></html>\n";
}

}  // namespace cortiq::pipeline
