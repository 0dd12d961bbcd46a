#include "rope.hpp"

#include <cmath>
#include <numbers>

namespace cortiq::hf {
namespace {

using cmf::Json;

/// The objects that may carry settings, in the order in which they are asked.
struct Sources {
  std::vector<Fields>
      global;  ///< rope_scaling, then rope_parameters (its full_attention part where nested)
  std::optional<Fields> local;  ///< rope_parameters.sliding_attention
};

Sources find_sources(const Fields& text) {
  Sources sources;
  if (const Json* scaling = text.object("rope_scaling")) {
    sources.global.emplace_back(*scaling, text.where() + ": rope_scaling");
  }
  const Json* parameters = text.object("rope_parameters");
  if (parameters == nullptr) return sources;
  const Fields outer(*parameters, text.where() + ": rope_parameters");
  const bool nested =
      outer.find("full_attention") != nullptr || outer.find("sliding_attention") != nullptr;
  if (!nested) {
    sources.global.push_back(outer);
    return sources;
  }
  if (const Json* full = outer.object("full_attention")) {
    sources.global.emplace_back(*full, outer.where() + ".full_attention");
  }
  if (const Json* sliding = outer.object("sliding_attention")) {
    sources.local.emplace(*sliding, outer.where() + ".sliding_attention");
  }
  return sources;
}

/// "default" where the object names no variant. Multi-axis tables equal the plain one for text.
std::string variant_of(const Fields& fields) {
  const std::string variant = fields.text({"rope_type", "type"}).value_or("default");
  return variant == "mrope" ? "default" : variant;
}

double require_number(const Fields& fields, std::string_view key) {
  const auto value = fields.number({key});
  if (!value || *value <= 0) fields.wrong(key, "a positive number");
  return *value;
}

double inverse_frequency(double theta, std::int64_t i, std::int64_t rotary_dims) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dims));
}

std::vector<double> llama3_factors(const Fields& fields, double theta, std::int64_t rotary_dims) {
  const double factor = require_number(fields, "factor");
  const double low = require_number(fields, "low_freq_factor");
  const double high = require_number(fields, "high_freq_factor");
  const double length = require_number(fields, "original_max_position_embeddings");
  if (high <= low) fields.wrong("high_freq_factor", "a number above low_freq_factor");
  std::vector<double> factors;
  for (std::int64_t i = 0; i < rotary_dims / 2; ++i) {
    const double base = inverse_frequency(theta, i, rotary_dims);
    const double wavelength = 2 * std::numbers::pi / base;
    double scaled = base;
    if (wavelength > length / low) {
      scaled = base / factor;
    } else if (wavelength >= length / high) {
      const double smooth = (length / wavelength - low) / (high - low);
      scaled = (1 - smooth) * base / factor + smooth * base;
    }
    factors.push_back(base / scaled);
  }
  return factors;
}

double yarn_scale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

Json yarn_record(const Fields& fields, const Fields& text) {
  const double factor = require_number(fields, "factor");
  auto length = fields.integer({"original_max_position_embeddings"});
  if (!length)
    length = text.integer({"original_max_position_embeddings", "max_position_embeddings"});
  if (!length || *length == 0)
    fields.wrong("original_max_position_embeddings", "a positive integer");
  if (!fields.boolean({"truncate"}).value_or(true))
    fields.wrong("truncate", "true (untruncated yarn is not handled)");
  const auto scale = fields.number({"mscale"});
  const auto scale_all = fields.number({"mscale_all_dim"});
  double attention = yarn_scale(factor, 1);
  if (scale && scale_all && *scale != 0 && *scale_all != 0) {
    attention = yarn_scale(factor, *scale) / yarn_scale(factor, *scale_all);
  }
  Json yarn = Json::object();
  yarn["factor"] = factor;
  yarn["original_max_position_embeddings"] = *length;
  yarn["beta_fast"] = fields.number({"beta_fast"}).value_or(32.0);
  yarn["beta_slow"] = fields.number({"beta_slow"}).value_or(1.0);
  yarn["attention_factor"] = fields.number({"attention_factor"}).value_or(attention);
  if (scale_all) yarn["mscale_all_dim"] = *scale_all;
  return yarn;
}

void apply_variant(Rope& rope, const Fields& fields, const Fields& text, std::int64_t head_dim) {
  const std::string variant = variant_of(fields);
  const auto share = static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.rotary_share);
  const std::int64_t rotary_dims = share < 2 ? 2 : share;
  if (variant == "default") return;
  if (variant == "dynamic") {
    // Up to max_position_embeddings the plain table holds, and no window is longer.
    const double alpha = fields.number({"alpha"}).value_or(1.0);
    if (alpha <= 0 || head_dim <= 2) fields.wrong("alpha", "a positive number");
    if (alpha != 1)
      rope.theta *=
          std::pow(alpha, static_cast<double>(head_dim) / static_cast<double>(head_dim - 2));
    return;
  }
  if (variant == "linear") {
    rope.factors.assign(static_cast<std::size_t>(rotary_dims / 2),
                        require_number(fields, "factor"));
  } else if (variant == "llama3") {
    rope.factors = llama3_factors(fields, rope.theta, rotary_dims);
  } else if (variant == "yarn") {
    rope.yarn = yarn_record(fields, text);
  } else {
    fail(ErrorKind::kUnsupported,
         "{}: position scaling \"{}\" is not handled; supported are default, linear, dynamic, "
         "llama3 and yarn",
         fields.where(), variant);
  }
}

}  // namespace

Rope read_rope(const Fields& text, std::int64_t head_dim, double default_theta,
               std::optional<double> default_local_theta) {
  const Sources sources = find_sources(text);
  const auto first_number = [&](std::string_view key) {
    auto value = text.number({key});
    for (const Fields& fields : sources.global) {
      if (!value) value = fields.number({key});
    }
    return value;
  };
  Rope rope;
  rope.theta = first_number("rope_theta").value_or(default_theta);
  rope.rotary_share = first_number("partial_rotary_factor").value_or(1.0);
  if (rope.theta <= 0) text.wrong("rope_theta", "a positive number");
  if (rope.rotary_share <= 0 || rope.rotary_share > 1)
    text.wrong("partial_rotary_factor", "a number in (0, 1]");
  rope.local_theta = text.number({"rope_local_base_freq"});
  if (sources.local) {
    if (variant_of(*sources.local) != "default") {
      fail(ErrorKind::kUnsupported,
           "{}: position scaling \"{}\" of sliding layers is not handled; only default is",
           sources.local->where(), variant_of(*sources.local));
    }
    if (!rope.local_theta) rope.local_theta = sources.local->number({"rope_theta"});
    rope.local_rotary_share = sources.local->number({"partial_rotary_factor"});
  }
  if (!rope.local_theta) rope.local_theta = default_local_theta;
  if (rope.local_theta && *rope.local_theta <= 0)
    text.wrong("rope_local_base_freq", "a positive number");
  for (const Fields& fields : sources.global) {
    if (variant_of(fields) == "default") continue;
    apply_variant(rope, fields, text, head_dim);
    break;
  }
  return rope;
}

}  // namespace cortiq::hf
