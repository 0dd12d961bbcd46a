// view.hpp: non-owning row-major matrix views. Whoever makes a view keeps the storage alive.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cortiq/support/error.hpp"

namespace cortiq {

/// rows x cols elements of T; row r starts at data + r*stride (stride >= cols, in elements).
template <typename T>
class MatrixView {
 public:
  MatrixView() = default;
  MatrixView(T* data, std::int64_t rows, std::int64_t cols) : MatrixView(data, rows, cols, cols) {}
  MatrixView(T* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {}
  /// A view of mutable elements converts to one of const elements.
  template <typename U>
  requires(std::is_same_v<T, const U>)
      MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()), rows_(other.rows()), cols_(other.cols()), stride_(other.stride()) {}

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] T* row(std::int64_t r) const { return data_ + r * stride_; }
  [[nodiscard]] T& operator()(std::int64_t r, std::int64_t c) const {
    return data_[r * stride_ + c];
  }
  /// The sub-matrix of `rows` x `cols` whose first element is (r, c).
  [[nodiscard]] MatrixView block(std::int64_t r, std::int64_t c, std::int64_t rows,
                                 std::int64_t cols) const {
    CORTIQ_DCHECK(r >= 0 && c >= 0 && r + rows <= rows_ && c + cols <= cols_);
    return MatrixView(data_ + r * stride_ + c, rows, cols, stride_);
  }

 private:
  T* data_ = nullptr;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::int64_t stride_ = 0;
};

template <typename T>
using ConstMatrixView = MatrixView<const T>;

}  // namespace cortiq
