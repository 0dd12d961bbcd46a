// part.hpp: one part of a calibration that is split over machines (`hessians capture --part i/N`).
// Parts are cut between windows, so that their sums add up to those of the whole.
#pragma once

#include <cstdint>
#include <string_view>

#include "cortiq/model/windows.hpp"

namespace cortiq::calib {

struct Part {
  std::int64_t number = 1;  ///< 1..count
  std::int64_t count = 1;
};
/// "i/N" with 1 <= i <= N. Throws Error{kUsage}.
[[nodiscard]] Part parse_part(std::string_view text);

/// The windows of one part: floor(W*(i-1)/N) to floor(W*i/N) of W. Error{kRefused} if there are
/// fewer windows than parts.
[[nodiscard]] model::Windows windows_of_part(const model::Windows& windows, const Part& part);

}  // namespace cortiq::calib
