#include "cortiq/linalg/gemm.hpp"

#include "product.hpp"

namespace cortiq::linalg {
namespace {

template <typename T>
void gemm(Trans trans_a, Trans trans_b, T alpha, ConstMatrixView<T> a, ConstMatrixView<T> b, T beta,
          MatrixView<T> c, Pool& pool) {
  const bool flip_a = trans_a == Trans::kYes;
  const bool flip_b = trans_b == Trans::kYes;
  const std::int64_t k = flip_a ? a.rows() : a.cols();
  CORTIQ_ASSERT((flip_a ? a.cols() : a.rows()) == c.rows());
  CORTIQ_ASSERT((flip_b ? b.rows() : b.cols()) == c.cols());
  CORTIQ_ASSERT((flip_b ? b.cols() : b.rows()) == k);
  multiply(Product<T>{.m = c.rows(),
                      .n = c.cols(),
                      .k = k,
                      .alpha = alpha,
                      .a = {a.data(), a.stride(), !flip_a},
                      .b = {b.data(), b.stride(), flip_b},
                      .beta = beta,
                      .c = c.data(),
                      .stride = c.stride()},
           pool);
}

}  // namespace

void gemm_f32(Trans trans_a, Trans trans_b, float alpha, ConstMatrixView<float> a,
              ConstMatrixView<float> b, float beta, MatrixView<float> c, Pool& pool) {
  gemm<float>(trans_a, trans_b, alpha, a, b, beta, c, pool);
}

void gemm_f64(Trans trans_a, Trans trans_b, double alpha, ConstMatrixView<double> a,
              ConstMatrixView<double> b, double beta, MatrixView<double> c, Pool& pool) {
  gemm<double>(trans_a, trans_b, alpha, a, b, beta, c, pool);
}

}  // namespace cortiq::linalg
