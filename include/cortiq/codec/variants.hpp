// variants.hpp: encodings that no profile chooses by itself: exact ternary weights and the older
// form of vbit.
#pragma once

#include <cstddef>
#include <vector>

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::codec {

/// q1t (dtype 14) of weights that are already ternary in each group of 32, within 1e-3 relative
/// (codecs.md section 7). Throws Error{kInput} naming row and group otherwise. Requires cols % 32
/// == 0.
[[nodiscard]] std::vector<std::byte> encode_q1t_exact(ConstMatrixView<float> w, Pool& pool);

/// vbit without the table of row offsets (dtype 8). Requires cols % 32 == 0. mean_bits is clamped
/// to [3, 8].
[[nodiscard]] std::vector<std::byte> encode_vbit_legacy(ConstMatrixView<float> w, float mean_bits,
                                                        Pool& pool);

}  // namespace cortiq::codec
