// q2tp: encoding of a matrix (codecs.md section 4). Decoding is in planes.cpp, the choice of rungs
// in ladder_rows.cpp.
#include <array>

#include "encoders.hpp"
#include "ladder_rows.hpp"
#include "planes.hpp"

namespace cortiq::codec {

namespace {

/// Moves the ladder so that the slope of the rounded row on the row becomes one; codes and rungs
/// stay (section 4.2).
LadderParams debias(std::span<const float> row, const std::uint8_t* codes, LadderParams params,
                    std::span<const std::uint8_t> rungs) {
  const Ladder ladder = q2tp_ladder(params);
  double num = 0.0;
  double den = 0.0;
  for (std::size_t g = 0; g < rungs.size(); ++g) {
    const float s = ladder[rungs[g]];
    const std::array<float, 4> levels = {-1.5F * s, -0.5F * s, 0.5F * s, 1.5F * s};
    for (std::size_t i = 0; i < kGroup; ++i) {
      const unsigned code = (static_cast<unsigned>(codes[8 * g + i / 4]) >> (2 * (i % 4))) & 3U;
      const double value = static_cast<double>(row[kGroup * g + i]);
      num = num + value * static_cast<double>(levels[code]);
      den = den + value * value;
    }
  }
  return unshrink(params, num, den);
}

template <typename Choose>
Payload encode_rows(Weights w, bool with_debias, Pool& pool, Choose choose) {
  const PlaneLayout layout = plane_layout(2, w.rows(), w.cols());
  Payload payload(layout.bytes);
  const PackKernels pack = pack_kernels(pool.simd());
  const std::int64_t groups = w.cols() / kGroup;
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    LadderRow work(pool.simd());
    std::vector<float> inverse;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::span<const float> row(w.row(r), static_cast<std::size_t>(w.cols()));
      choose(work, row);
      inverse_scales(q2tp_ladder(work.params()), work.rungs(), inverse);
      std::uint8_t* codes = bytes_at(payload, r * groups * 8);
      pack.q2_multiply(row.data(), inverse.data(), codes, groups);
      LadderParams params = work.params();
      if (with_debias) params = debias(row, codes, params, work.rungs());
      store_side_planes(payload, layout, r, params, work.rungs());
    }
  });
  return payload;
}

}  // namespace

Payload encode_q2tp(Weights w, Pool& pool) {
  return encode_rows(w, true, pool,
                     [](LadderRow& work, std::span<const float> row) { work.q2tp_place(row, {}); });
}

Payload encode_q2tp_v1(Weights w, bool search, Pool& pool) {
  return encode_rows(w, false, pool, [search](LadderRow& work, std::span<const float> row) {
    work.q2tp_v1(row, search);
  });
}

}  // namespace cortiq::codec
