// q4tp: encoding of a matrix (codecs.md section 3). Decoding is in planes.cpp, the choice of rungs
// in ladder_rows.cpp.
#include <array>

#include "encoders.hpp"
#include "ladder_rows.hpp"
#include "planes.hpp"

namespace cortiq::codec {

Payload encode_q4tp(Weights w, bool search, Pool& pool) {
  const PlaneLayout layout = plane_layout(4, w.rows(), w.cols());
  Payload payload(layout.bytes);
  const PackKernels pack = pack_kernels(pool.simd());
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    LadderRow work(pool.simd());
    std::vector<float> inverse;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::span<const float> row(w.row(r), static_cast<std::size_t>(w.cols()));
      work.q4tp(row, search);
      inverse_scales(q4tp_ladder(work.params()), work.rungs(), inverse);
      const std::int64_t groups = w.cols() / kGroup;
      pack.q4_multiply(row.data(), inverse.data(), bytes_at(payload, r * groups * 16), 16, groups);
      store_side_planes(payload, layout, r, work.params(), work.rungs());
    }
  });
  return payload;
}

}  // namespace cortiq::codec
