#include "report_experts.hpp"

#include <algorithm>
#include <map>

#include "cortiq/model/roles.hpp"

namespace cortiq::pipeline {
namespace {

struct ExpertRows {
  std::int64_t rows = 0;
  bool prior = false;
};
using Layer = std::map<std::int64_t, ExpertRows>;

std::map<std::int64_t, Layer> rows_by_layer(const RunReport& report) {
  std::map<std::int64_t, Layer> layers;
  for (const TensorReport& tensor : report.tensors) {
    const auto place = model::expert_place(tensor.name);
    if (!place || tensor.action == Action::kCopy) continue;
    if (tensor.action != Action::kGptq && !tensor.missed) continue;
    ExpertRows& entry = layers[place->layer][place->expert];
    entry.rows = std::max(entry.rows, tensor.hessian_rows);
    entry.prior = entry.prior || tensor.prior_rows > 0;
  }
  return layers;
}

}  // namespace

std::vector<std::string> expert_lines(const RunReport& report) {
  std::vector<std::string> lines;
  for (const auto& [layer, experts] : rows_by_layer(report)) {
    const auto [least, most] = std::minmax_element(
        experts.begin(), experts.end(),
        [](const auto& a, const auto& b) { return a.second.rows < b.second.rows; });
    std::string line = fmt::format("experts of layer {}: {} to {} rows", layer, least->second.rows,
                                   most->second.rows);
    std::string priors;
    for (const auto& [expert, entry] : experts) {
      if (entry.prior)
        priors += fmt::format("{}{} ({})", priors.empty() ? "" : ", ", expert, entry.rows);
    }
    if (!priors.empty()) line += "; with the layer's Hessian as prior: " + priors;
    lines.push_back(std::move(line));
  }
  return lines;
}

cmf::Json expert_json(const RunReport& report) {
  cmf::Json json = cmf::Json::object();
  for (const auto& [layer, experts] : rows_by_layer(report)) {
    cmf::Json rows = cmf::Json::array();
    for (const auto& [expert, entry] : experts) {
      while (static_cast<std::int64_t>(rows.size()) < expert) rows.push_back(nullptr);
      rows.push_back(entry.rows);
    }
    json[std::to_string(layer)] = std::move(rows);
  }
  return json;
}

}  // namespace cortiq::pipeline
