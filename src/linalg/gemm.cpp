#define EIGEN_DONT_PARALLELIZE
#include "cortiq/linalg/gemm.hpp"

#include <Eigen/Core>

namespace cortiq::linalg {
namespace {

template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using ConstMap = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using Map = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;

template <typename T>
void gemm(Trans trans_a, Trans trans_b, T alpha, ConstMatrixView<T> a, ConstMatrixView<T> b, T beta,
          MatrixView<T> c) {
  const ConstMap<T> A(a.data(), a.rows(), a.cols(), Eigen::OuterStride<>(a.stride()));
  const ConstMap<T> B(b.data(), b.rows(), b.cols(), Eigen::OuterStride<>(b.stride()));
  Map<T> C(c.data(), c.rows(), c.cols(), Eigen::OuterStride<>(c.stride()));
  if (beta == T(0)) {
    C.setZero();
  } else if (beta != T(1)) {
    C *= beta;
  }
  if (trans_a == Trans::kNo && trans_b == Trans::kNo) {
    C.noalias() += alpha * A * B;
  } else if (trans_a == Trans::kNo) {
    C.noalias() += alpha * A * B.transpose();
  } else if (trans_b == Trans::kNo) {
    C.noalias() += alpha * A.transpose() * B;
  } else {
    C.noalias() += alpha * A.transpose() * B.transpose();
  }
}

}  // namespace

void gemm_f32(Trans trans_a, Trans trans_b, float alpha, ConstMatrixView<float> a,
              ConstMatrixView<float> b, float beta, MatrixView<float> c, Pool&) {
  gemm<float>(trans_a, trans_b, alpha, a, b, beta, c);
}

void gemm_f64(Trans trans_a, Trans trans_b, double alpha, ConstMatrixView<double> a,
              ConstMatrixView<double> b, double beta, MatrixView<double> c, Pool&) {
  gemm<double>(trans_a, trans_b, alpha, a, b, beta, c);
}

}  // namespace cortiq::linalg
