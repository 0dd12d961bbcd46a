#include "cortiq/linalg/gram.hpp"

#include <algorithm>
#include <vector>

#include "cortiq/linalg/gemm.hpp"

namespace cortiq::linalg {

void gram_accumulate(ConstMatrixView<float> x, MatrixView<double> h, Pool& pool) {
  const std::int64_t n = x.cols();
  constexpr std::int64_t kTile = 256;
  std::vector<float> product(static_cast<std::size_t>(kTile * n));
  for (std::int64_t t = 0; t < x.rows(); t += kGramBlockTokens) {
    const std::int64_t tokens = std::min(kGramBlockTokens, x.rows() - t);
    for (std::int64_t i = 0; i < n; i += kTile) {
      const std::int64_t rows = std::min(kTile, n - i);
      const MatrixView<float> P(product.data(), rows, n - i);
      gemm_f32(Trans::kYes, Trans::kNo, 1.0F, x.block(t, i, tokens, rows),
               x.block(t, i, tokens, n - i), 0.0F, P, pool);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = r; c < n - i; ++c) h(i + r, i + c) += static_cast<double>(P(r, c));
      }
    }
  }
}

void mirror_upper(MatrixView<double> h, Pool&) {
  for (std::int64_t r = 0; r < h.rows(); ++r) {
    for (std::int64_t c = r + 1; c < h.cols(); ++c) h(c, r) = h(r, c);
  }
}

}  // namespace cortiq::linalg
