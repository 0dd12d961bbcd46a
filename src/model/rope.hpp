// rope.hpp: cosine and sine tables of the rotary embedding (cmf.md section 5.6), computed in f64,
// kept in f32.
#pragma once

#include <cstdint>
#include <vector>

#include "cortiq/model/arch.hpp"

namespace cortiq::model {

/// Angular frequencies, rotary_dim/2 values. Sliding layers of a model with a local base use that
/// base without scaling; every other layer rope_theta, then yarn, then the frequency factors.
[[nodiscard]] std::vector<double> rope_frequencies(const Arch& arch, bool sliding);

/// Tables [positions, half], row-major.
struct RopeTable {
  std::int64_t half = 0;
  std::int64_t positions = 0;
  std::vector<float> cosine;
  std::vector<float> sine;
};
[[nodiscard]] RopeTable make_rope_table(const Arch& arch, bool sliding, std::int64_t positions);

}  // namespace cortiq::model
