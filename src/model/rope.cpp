#include "rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cortiq::model {
namespace {

/// Low frequencies are divided by the factor, high ones kept, with a linear ramp between two
/// dimensions.
void apply_yarn(const Yarn& yarn, double base, double dims, std::vector<double>& inverse) {
  const auto dimension = [&](double rotations) {
    return dims * std::log(yarn.original_positions / (2 * std::numbers::pi * rotations)) /
           (2 * std::log(base));
  };
  const double low = std::max(std::floor(dimension(yarn.beta_fast)), 0.0);
  const double high = std::min(std::ceil(dimension(yarn.beta_slow)), dims - 1);
  const double width = high == low ? 0.001 : high - low;
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
    inverse[i] = inverse[i] / yarn.factor * ramp + inverse[i] * (1 - ramp);
  }
}

}  // namespace

std::vector<double> rope_frequencies(const Arch& arch, bool sliding) {
  const bool local = sliding && arch.has_local_rope;
  const double base = local ? arch.rope_local_theta : arch.rope_theta;
  const auto dims = static_cast<double>(arch.rotary_dim);
  std::vector<double> inverse(static_cast<std::size_t>(arch.rotary_dim / 2));
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = std::pow(base, -2.0 * static_cast<double>(i) / dims);
  if (local) return inverse;
  if (arch.yarn) apply_yarn(*arch.yarn, base, dims, inverse);
  for (std::size_t i = 0; i < arch.rope_factors.size(); ++i) inverse[i] /= arch.rope_factors[i];
  return inverse;
}

RopeTable make_rope_table(const Arch& arch, bool sliding, std::int64_t positions) {
  const std::vector<double> inverse = rope_frequencies(arch, sliding);
  const bool local = sliding && arch.has_local_rope;
  const double magnitude = arch.yarn && !local ? arch.yarn->attention_factor : 1.0;
  RopeTable table;
  table.half = arch.rotary_dim / 2;
  table.positions = positions;
  table.cosine.reserve(static_cast<std::size_t>(positions) * inverse.size());
  table.sine.reserve(table.cosine.capacity());
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const double frequency : inverse) {
      const double angle = static_cast<double>(position) * frequency;
      table.cosine.push_back(static_cast<float>(magnitude * std::cos(angle)));
      table.sine.push_back(static_cast<float>(magnitude * std::sin(angle)));
    }
  }
  return table;
}

}  // namespace cortiq::model
