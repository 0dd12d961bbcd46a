// What the output says about how it was made (cli.md section 4.1).
#include <algorithm>

#include "gptq_run.hpp"
#include "sequential_plan.hpp"

namespace cortiq::pipeline {
namespace {

using cmf::Json;

const char* order_name(gptq::Order order) {
  switch (order) {
    case gptq::Order::kNatural:
      return "natural";
    case gptq::Order::kAct:
      return "act";
    case gptq::Order::kGroup:
      break;
  }
  return "group";
}

const char* rung_name(gptq::Rung rung) {
  switch (rung) {
    case gptq::Rung::kDiag:
      return "diag";
    case gptq::Rung::kAll:
      return "all";
    case gptq::Rung::kSim:
      break;
  }
  return "sim";
}

const char* rule_name(gptq::Q2tpRule rule) {
  return rule == gptq::Q2tpRule::kPlaced ? "placed" : "cortiq";
}

/// Whether a tensor may get one of these codecs, by the profile or by name.
bool may_get(const SelectionOptions& selection, std::initializer_list<codec::Codec> codecs) {
  const auto listed = [&](codec::Codec codec) {
    return std::find(codecs.begin(), codecs.end(), codec) != codecs.end();
  };
  return listed(selection.profile) ||
         std::any_of(selection.overrides.begin(), selection.overrides.end(),
                     [&](const codec::TensorOverride& entry) { return listed(entry.codec); });
}

void add_one_bit(Json& json, const SelectionOptions& selection) {
  if (!may_get(selection, {codec::Codec::kQ1s, codec::Codec::kQ1t})) return;
  json["keep"] = selection.one_bit.keep;
  json["down_keep"] = selection.down_keep;
  json["col_mask"] = selection.one_bit.column_mask;
  if (may_get(selection, {codec::Codec::kQ1t}))
    json["row_rescale"] = selection.one_bit.row_rescale;
  if (selection.max_cols > 0) json["max_cols"] = selection.max_cols;
}

Json sources_json(const std::vector<calib::SourceReport>& sources) {
  Json list = Json::array();
  for (const auto& source : sources) {
    list.push_back({{"file", source.file},
                    {"sha256", source.sha256},
                    {"share", source.share},
                    {"tokens", source.tokens_used}});
  }
  return list;
}

/// File names and patterns of the user may hold any bytes; the header must be UTF-8.
Json as_utf8(const Json& json) {
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

bool is_q2tp_profile(const SelectionOptions& selection) {
  return selection.profile == codec::Codec::kQ2tp;
}

cmf::Json options_json(const GptqOptions& options) {
  Json json;
  json["codec"] = codec::codec_name(options.selection.profile);
  json["lambda"] = options.lambda;
  json["order"] = order_name(options.order);
  if (options.order != gptq::Order::kAct) {
    json["rung"] = rung_name(options.rung);
    if (may_get(options.selection, {codec::Codec::kQ4tp, codec::Codec::kQ2tp}))
      json["ladder"] = options.ladder == gptq::LadderFit::kFit ? "fit" : "converter";
    if (json.contains("ladder") && options.group_moves) json["group_moves"] = true;
    if (json.contains("ladder") && options.row_scale) json["row_scale"] = true;
    json["polish"] = options.polish;
  }
  if (is_q2tp_profile(options.selection)) {
    json["q2tp_rule"] = rule_name(options.selection.rule);
    json["q2tp_debias"] = options.q2tp_debias;
  }
  json["q4tp_debias"] = options.q4tp_debias;
  add_one_bit(json, options.selection);
  json["embeddings"] = options.selection.embeddings == Embeddings::kQ82f  ? "q8_2f"
                       : options.selection.embeddings == Embeddings::kF16 ? "f16"
                                                                          : "profile";
  json["skip"] = options.selection.skip;
  if (!options.selection.include.empty()) json["include"] = options.selection.include;
  for (const auto& entry : options.selection.overrides) {
    json["tensor_quant"].push_back(
        fmt::format("{}={}", entry.pattern, codec::codec_name(entry.codec)));
  }
  for (const auto& entry : options.selection.rule_overrides) {
    json["q2tp_rule_overrides"].push_back(
        fmt::format("{}={}", entry.pattern, rule_name(entry.rule)));
  }
  if (options.calibration.calib_model)
    json["calib_model"] = options.calibration.calib_model->filename().string();
  json["sanitize"] = options.sanitize;
  if (options.chunk_layers > 0) json["calib_chunk_layers"] = options.chunk_layers;
  add_recipe(json, options);
  return json;
}

void add_gptq_provenance(cmf::Header& header, const GptqOptions& options, const RunReport& report) {
  Json& json = header.json();
  const codec::Codec profile = options.selection.profile;
  const bool one_bit = profile == codec::Codec::kQ1s || profile == codec::Codec::kQ1t;
  json["quant_type"] = one_bit ? "VBIT" : "Q4_BLOCK";
  if (!json.contains("provenance") || !json["provenance"].is_object())
    json["provenance"] = Json::object();
  json["provenance"]["weight_quant"] = report.codec;
  Json gptq;
  gptq["codec"] = report.codec;
  gptq["calibration_tokens"] = report.tokens_wanted > 0 ? report.tokens_wanted : report.tokens_used;
  gptq["window"] = report.window;
  gptq["lambda"] = options.lambda;
  gptq["act_order"] = options.order == gptq::Order::kAct;
  gptq["linears"] = report.gptq_count();
  if (is_q2tp_profile(options.selection)) {
    gptq["q2tp_rule"] = rule_name(options.selection.rule);
    gptq["q2tp_debias"] = options.q2tp_debias;
  }
  if (report.options.contains("q2tp_rule_overrides"))
    gptq["q2tp_rule_overrides"] = report.options["q2tp_rule_overrides"];
  if (options.q4tp_debias) gptq["q4tp_debias"] = true;
  if (report.sources.size() > 1 && report.hessians == "captured")
    gptq["calib"] = sources_json(report.sources);
  gptq["tool"] = "cortiq-quant";
  gptq["version"] = CORTIQ_VERSION;
  gptq["tokens_used"] = report.tokens_used;
  gptq["sources"] = sources_json(report.sources);
  gptq["hessians"] = report.hessians;
  Json fallback = Json::array();
  Json raised = Json::object();
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.missed && tensor.action != Action::kCopy) fallback.push_back(tensor.name);
    if (tensor.prior_rows > 0) gptq["expert_prior"].push_back(tensor.name);
    if (tensor.retries > 0) raised[tensor.name] = tensor.lambda;
  }
  gptq["rtn_fallback"] = fallback;
  gptq["lambda_raised"] = raised;
  if (options.chunk_layers > 0) gptq["calib_chunk_layers"] = options.chunk_layers;
  for (const char* key : {"keep", "down_keep", "col_mask", "row_rescale", "max_cols"}) {
    if (report.options.contains(key)) gptq[key] = report.options[key];
  }
  gptq["device"] = report.options.value("device", "cpu");
  if (report.options.contains("simd")) gptq["simd"] = report.options["simd"];
  gptq["precision"] = gptq["device"] == "cpu" ? "f64" : "f32";
  for (const char* key : {"order", "rung", "ladder", "polish", "group_moves", "row_scale", "min_rows", "moe_prior", "effort",
                          "sequential", "seq_alpha", "seq_rho"}) {
    if (report.options.contains(key)) gptq[key] = report.options[key];
  }
  json["provenance"]["gptq"] = as_utf8(gptq);
}

}  // namespace cortiq::pipeline
