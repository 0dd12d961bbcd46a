#include "cortiq/gptq/group_block.hpp"

#include <cmath>
#include <optional>

namespace cortiq::gptq {
namespace {

constexpr int kCols = static_cast<int>(kBlockSide);
using Square = GroupBlock::Square;

std::size_t at(int row, int col) { return static_cast<std::size_t>(row * kCols + col); }

/// Lower L with A = L L^T; nothing if a pivot is not positive.
std::optional<Square> cholesky(const Square& a) {
  Square l{};
  for (int j = 0; j < kCols; ++j) {
    double pivot = a[at(j, j)];
    for (int k = 0; k < j; ++k) pivot -= l[at(j, k)] * l[at(j, k)];
    if (!(pivot > 0) || !std::isfinite(pivot)) return std::nullopt;
    l[at(j, j)] = std::sqrt(pivot);
    for (int i = j + 1; i < kCols; ++i) {
      double sum = a[at(i, j)];
      for (int k = 0; k < j; ++k) sum -= l[at(i, k)] * l[at(j, k)];
      l[at(i, j)] = sum / l[at(j, j)];
    }
  }
  return l;
}

/// L^-1, lower.
Square inverse_of(const Square& l) {
  Square inverse{};
  for (int c = 0; c < kCols; ++c) {
    for (int i = c; i < kCols; ++i) {
      double sum = i == c ? 1.0 : 0.0;
      for (int k = c; k < i; ++k) sum -= l[at(i, k)] * inverse[at(k, c)];
      inverse[at(i, c)] = sum / l[at(i, i)];
    }
  }
  return inverse;
}

/// M^T M of a lower M.
Square normal_product(const Square& m) {
  Square product{};
  for (int i = 0; i < kCols; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = 0;
      for (int k = i; k < kCols; ++k) sum += m[at(k, i)] * m[at(k, j)];
      product[at(i, j)] = sum;
      product[at(j, i)] = sum;
    }
  }
  return product;
}

}  // namespace

GroupBlock make_group_block(ConstMatrixView<double> h) {
  GroupBlock block;
  Square own{};
  for (int i = 0; i < kCols; ++i) {
    for (int j = 0; j < kCols; ++j) own[at(i, j)] = h(i, j);
  }
  const auto lower = cholesky(own);
  if (!lower) return block;
  block.inverse = normal_product(inverse_of(*lower));
  const auto v = cholesky(block.inverse);  // V is its transpose
  if (!v) return block;
  for (int i = 0; i < kCols; ++i) {
    for (int j = i; j < kCols; ++j) block.upper[at(i, j)] = (*v)[at(j, i)];
  }
  block.usable = true;
  return block;
}

}  // namespace cortiq::gptq
