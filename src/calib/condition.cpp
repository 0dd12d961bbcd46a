// Power iteration reads the strict upper triangle and a copy of the diagonal, so that the Cholesky
// factor can live in the lower triangle of the same array.
#include "cortiq/calib/condition.hpp"

#include <cmath>
#include <vector>

#include "cortiq/linalg/cholesky.hpp"
#include "cortiq/linalg/gram.hpp"

namespace cortiq::calib {
namespace {

using Vector = std::vector<double>;

constexpr int kMaxSteps = 60;
/// Relative change of the quotient below which the iteration stops.
constexpr double kSettled = 1e-4;

double& at(Vector& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }
double at(const Vector& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// y = H x with the strict upper triangle of h and this diagonal.
Vector multiply(ConstMatrixView<double> h, const Vector& diagonal, const Vector& x) {
  const std::int64_t n = h.rows();
  Vector y(x.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const double* row = h.row(i);
    const double xi = at(x, i);
    double sum = at(diagonal, i) * xi;
    for (std::int64_t j = i + 1; j < n; ++j) {
      sum += row[j] * at(x, j);
      at(y, j) += row[j] * xi;
    }
    at(y, i) += sum;
  }
  return y;
}

/// x of L L^T x = b.
Vector solve(ConstMatrixView<double> l, Vector b) {
  const std::int64_t n = l.rows();
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = at(b, i);
    for (std::int64_t j = 0; j < i; ++j) sum -= l(i, j) * at(b, j);
    at(b, i) = sum / l(i, i);
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    at(b, i) /= l(i, i);
    for (std::int64_t j = 0; j < i; ++j) at(b, j) -= l(i, j) * at(b, i);
  }
  return b;
}

/// Largest eigenvalue of the symmetric operator `apply`, from below.
template <typename Apply>
double largest_eigenvalue(Vector x, const Apply& apply) {
  double quotient = 0;
  for (int step = 0; step < kMaxSteps; ++step) {
    const double norm = std::sqrt(dot(x, x));
    for (double& value : x) value /= norm;
    Vector y = apply(x);
    const double next = dot(x, y);
    const bool settled = std::fabs(next - quotient) <= kSettled * next;
    quotient = next;
    if (settled || !(next > 0)) break;
    x = std::move(y);
  }
  return quotient;
}

/// No eigenvector of a real Hessian is orthogonal to it.
Vector start_vector(const Vector& diagonal) {
  Vector x;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    const double factor = i % 3 == 1 ? -1.0 : 1.0 + 0.25 * static_cast<double>(i % 7);
    x.push_back(std::sqrt(diagonal[i]) * factor);
  }
  return x;
}

}  // namespace

std::optional<Condition> estimate_condition(Hessian& hessian, Pool& pool) {
  const MatrixView<double> h = hessian.view();
  const std::int64_t n = hessian.n();
  Vector diagonal;
  for (std::int64_t i = 0; i < n; ++i) diagonal.push_back(h(i, i));
  Condition condition;
  condition.mean_diagonal = diagonal_health(diagonal, hessian.count).mean_diagonal;
  if (!(condition.mean_diagonal > 0)) return std::nullopt;
  for (std::int64_t i = 0; i < n; ++i) {
    if (at(diagonal, i) > 0) continue;
    // The mean of the diagonal lies between the extreme eigenvalues: alone in its row and column it
    // moves neither.
    for (std::int64_t j = 0; j < i; ++j) h(j, i) = 0;
    for (std::int64_t j = i + 1; j < n; ++j) h(i, j) = 0;
    h(i, i) = at(diagonal, i) = condition.mean_diagonal;
  }
  const Vector start = start_vector(diagonal);
  condition.largest =
      largest_eigenvalue(start, [&](const Vector& x) { return multiply(h, diagonal, x); });
  linalg::mirror_upper(h, pool);
  if (hessian.count > 0 && linalg::cholesky_in_place(h, pool)) return condition;
  const double inverse = largest_eigenvalue(start, [&](const Vector& x) { return solve(h, x); });
  // A factor that passed by rounding alone says nothing about a smallest eigenvalue.
  constexpr double kRoundoff = 1e-15;
  if (inverse > 0 && 1 / inverse > kRoundoff * condition.largest) condition.smallest = 1 / inverse;
  return condition;
}

}  // namespace cortiq::calib
