// selftest_fold.cpp: U of the device against the host's f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "factor.hpp"
#include "selftest_checks.hpp"

namespace cortiq::device {

namespace {

constexpr double kFrobenius = 2e-4;      // the goal of the Vulkan backend, for conditions up to 1e6
constexpr double kLargest = 2e-3;        // P14
constexpr double kDiagonal = 1e-4;       // P15
constexpr double kTimesInput = 24;       // measured: 2 (small n) to 16 (n 700), for both ways to multiply
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

struct Difference {
  double frobenius = 0;  ///< relative
  double largest = 0;    ///< max|D| / max|U|
};

Difference compare(const std::vector<double>& u, ConstMatrixView<double> reference) {
  double difference = 0, norm = 0, largest = 0, most = 0;
  for (std::int64_t i = 0; i < reference.rows(); ++i) {
    for (std::int64_t j = i; j < reference.cols(); ++j) {
      const double d = u[static_cast<std::size_t>(i * reference.cols() + j)] - reference(i, j);
      difference += d * d;
      norm += reference(i, j) * reference(i, j);
      largest = std::max(largest, std::fabs(d));
      most = std::max(most, std::fabs(reference(i, j)));
    }
  }
  return {std::sqrt(difference / norm), largest / most};
}

struct FoldPair {
  std::unique_ptr<gptq::HostFactor> host;
  FoldOutcome device;
  Difference difference{kNoNumber, kNoNumber};  ///< not a number where the device declined
};

FoldPair fold_both(const SelftestRun& run, ConstMatrixView<double> h, const gptq::FoldOptions& options) {
  FoldPair pair;
  pair.host = gptq::fold_host(h, options, run.pool);
  vulkan::Stream stream(run.engine.shared_context());
  pair.device = fold_on_device(run.engine, stream, run.pool, h, options);
  if (pair.device.factor)
    pair.difference = compare(read_factor(run.engine, *pair.device.factor), pair.host->u());
  else
    run.report.problems.push_back(fmt::format("fold, n {}: declined: {}", h.rows(), pair.device.reason));
  return pair;
}

void check_widths(const SelftestRun& run) {
  for (const std::int64_t n : {1, 33, 96, 129, 700}) {
    const auto problem = make_selftest_problem({.n = n, .samples = 3 * n, .loud = {n / 5}}, run.pool);
    const FoldPair pair = fold_both(run, problem.hessian(), {.lambda = 0.01});
    run.at_most(fmt::format("U against f64, n {}: relative Frobenius", n), pair.difference.frobenius, kFrobenius);
  }
}

/// n 160 with dead and loud channels, the set-up of P14.
void check_channels(const SelftestRun& run) {
  const auto problem = make_selftest_problem(
      {.n = 160, .samples = 700, .dead = {17, 90}, .loud = {3, 40, 77, 131}}, run.pool);
  const FoldPair pair = fold_both(run, problem.hessian(), {.lambda = 0.01});
  run.at_most("U against f64, n 160, dead and loud channels: relative Frobenius", pair.difference.frobenius, kFrobenius);
  run.at_most("P14: max|dU| / max|U|, n 160, dead and loud channels", pair.difference.largest, kLargest);
  if (!pair.device.factor) return;
  const Scaling& scaling = pair.device.factor->scaling;
  std::int64_t flags = 0;
  for (std::size_t c = 0; c < pair.host->dead.size(); ++c)
    flags += (scaling.facts.dead[c] != 0) != (pair.host->dead[c] != 0) ? 1 : 0;
  run.at_most("P15: dead channels that differ from the host's", static_cast<double>(flags), 0);
  // The energies by position, as the device holds them.
  std::vector<float> diagonal(static_cast<std::size_t>(problem.n));
  vulkan::Stream stream(run.engine.shared_context());
  download(run.engine, stream, pair.device.factor->diagonal, 0, std::as_writable_bytes(std::span(diagonal)));
  double worst = 0;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    const std::int64_t c = pair.host->elimination[i];
    const double truth = problem.hessian()(c, c);
    const double here = static_cast<double>(diagonal[i]) * scaling.base;
    worst = std::max(worst, truth > 0 ? std::fabs(here / truth - 1) : std::fabs(here));
  }
  run.at_most("P15: diagonal of H on the device, relative", worst, kDiagonal);
}

/// What rounding H to f32, the form in which it reaches a device, costs by itself: U of f64 arithmetic on it.
double cost_of_input(const SelftestRun& run, SelftestProblem problem, const gptq::FoldOptions& options,
                     const gptq::HostFactor& reference) {
  for (double& value : problem.h) value = static_cast<double>(static_cast<float>(value));
  const auto rounded = gptq::fold_host(problem.hessian(), options, run.pool);
  const auto size = static_cast<std::size_t>(problem.n * problem.n);
  return compare(std::vector<double>(rounded->values.get(), rounded->values.get() + size), reference.u()).frobenius;
}

/// Conditions of about 1e6. Where channels differ in size the equilibration takes the condition away; where a few factors
/// carry all of the energy, no f32 arithmetic reaches 2e-4, and the measure is what the rounding of H alone costs.
void check_condition(const SelftestRun& run) {
  const auto graded = make_selftest_problem({.n = 700, .samples = 2100, .decades = 2}, run.pool);
  const FoldPair sizes = fold_both(run, graded.hessian(), {.lambda = 1e-4});
  const double condition = damped_condition(graded, sizes.host->damping, sizes.host->elimination, sizes.host->u());
  run.at_most(fmt::format("U against f64, n 700, channels of unlike size, condition {:.1e}", condition),
              sizes.difference.frobenius, kFrobenius);

  const auto factors = make_selftest_problem({.n = 700, .samples = 2100, .common = 300}, run.pool);
  for (const double lambda : {0.01, 2e-4}) {
    const gptq::FoldOptions options{.lambda = lambda};
    const FoldPair pair = fold_both(run, factors.hessian(), options);
    const double found = damped_condition(factors, pair.host->damping, pair.host->elimination, pair.host->u());
    run.at_most(fmt::format("U, n 700, four factors, condition {:.1e}: error / that of H in f32", found),
                pair.difference.frobenius / cost_of_input(run, factors, options, *pair.host), kTimesInput);
  }
}

/// A Hessian of fewer samples than channels without damping: the damping steps of the host.
void check_singular(const SelftestRun& run) {
  const auto problem = make_selftest_problem({.n = 130, .samples = 40}, run.pool);
  const FoldPair pair = fold_both(run, problem.hessian(), {.lambda = 0});
  const double used = pair.device.factor ? pair.device.factor->lambda_used : kNoNumber;
  run.at_most("P12: singular H, damping 0: damping used, difference from the host's",
              std::fabs(used - pair.host->lambda_used), 0);
  run.at_most("P12: singular H, damping 0: U, error / that of H in f32",
              pair.difference.frobenius / cost_of_input(run, problem, {.lambda = 0}, *pair.host), kTimesInput);
}

/// What a cache stores: f32 values, of which only the upper triangle is read.
void check_cached(const SelftestRun& run) {
  auto problem = make_selftest_problem({.n = 160, .samples = 700, .loud = {40}}, run.pool);
  for (double& value : problem.h) value = static_cast<double>(static_cast<float>(value));
  const auto host = gptq::fold_host(problem.hessian(), {.lambda = 0.01}, run.pool);
  for (std::int64_t i = 0; i < problem.n; ++i)
    for (std::int64_t j = 0; j < i; ++j) problem.h[static_cast<std::size_t>(i * problem.n + j)] = kNoNumber;
  vulkan::Stream stream(run.engine.shared_context());
  const FoldOutcome device = fold_on_device(run.engine, stream, run.pool, problem.hessian(), {.lambda = 0.01});
  const double difference =
      device.factor ? compare(read_factor(run.engine, *device.factor), host->u()).frobenius : kNoNumber;
  run.at_most("U of a cached H (f32, upper triangle only): relative Frobenius", difference, kFrobenius);
}

}  // namespace

void check_folds(const SelftestRun& run) {
  check_widths(run);
  check_channels(run);
  check_condition(run);
  check_singular(run);
  check_cached(run);
}

}  // namespace cortiq::device
