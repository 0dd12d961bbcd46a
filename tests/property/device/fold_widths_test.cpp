// Folds of any width and order against the host's f64, with the definition U^T U H_d = I beside it.
#include <cmath>

#include "backend_fixture.hpp"
#include "factor.hpp"

namespace cortiq::device::test {
namespace {

constexpr double kUTolerance = 2e-4;        // relative Frobenius, the goal of the backend
constexpr double kIdentityTolerance = 5e-3;  // kUTolerance times the condition of the equilibrated matrix, measured 1e-4

double distance(const std::vector<double>& u, ConstMatrixView<double> reference) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < reference.rows(); ++i) {
    for (std::int64_t j = i; j < reference.cols(); ++j) {
      const double d = u[static_cast<std::size_t>(i * reference.cols() + j)] - reference(i, j);
      difference += d * d;
      norm += reference(i, j) * reference(i, j);
    }
  }
  return std::sqrt(difference / norm);
}

/// |U^T U H_d v - v| / |v| for v of ones.
double identity_error(const std::vector<double>& u, ConstMatrixView<double> h, const Scaling& scaling) {
  const std::int64_t n = h.rows();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<double> hv(at(n)), uhv(at(n), 0.0), back(at(n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    hv[at(i)] = scaling.damping;
    for (std::int64_t j = 0; j < n; ++j) hv[at(i)] += h(scaling.elimination[at(i)], scaling.elimination[at(j)]);
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) uhv[at(i)] += u[at(i * n + j)] * hv[at(j)];
  double error = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) back[at(j)] += u[at(i * n + j)] * uhv[at(i)];
  for (const double value : back) error += (value - 1) * (value - 1);
  return std::sqrt(error / static_cast<double>(n));
}

TEST_F(DeviceTest, folds_of_any_width_and_order_agree_with_the_host) {
  Pool pool(2);
  for (const Path path : paths()) {
    const Engine engine(context_, path);
    vulkan::Stream stream(context_);
    for (const std::int64_t n : {1, 31, 33, 100, 127, 255, 385, 511, 577, 700}) {
      const auto h = random_hessian(n, 2 * n, 8.0, static_cast<std::uint32_t>(n));
      for (const gptq::Order order : {gptq::Order::kNatural, gptq::Order::kGroup, gptq::Order::kAct}) {
        const gptq::FoldOptions options{.lambda = 0.01, .order = order};
        const auto host = gptq::fold_host(h.view(), options, pool);
        const FoldOutcome outcome = fold_on_device(engine, stream, pool, h.view(), options);
        ASSERT_TRUE(outcome.factor) << "n " << n << ": " << outcome.reason;
        const auto u = read_factor(engine, *outcome.factor);
        EXPECT_LT(distance(u, host->u()), kUTolerance) << "n " << n << " split " << engine.split();
        EXPECT_LT(identity_error(u, h.view(), outcome.factor->scaling), kIdentityTolerance) << "n " << n;
      }
    }
  }
}

TEST_F(DeviceTest, a_singular_hessian_without_damping_is_damped_as_on_the_host) {
  Pool pool(2);
  for (const Path path : paths()) {
    const Engine engine(context_, path);
    vulkan::Stream stream(context_);
    for (const std::int64_t n : {97, 300}) {
      const auto h = random_hessian(n, n / 3, 8.0, 7);
      const auto host = gptq::fold_host(h.view(), {.lambda = 0}, pool);
      const FoldOutcome outcome = fold_on_device(engine, stream, pool, h.view(), {.lambda = 0});
      ASSERT_TRUE(outcome.factor) << outcome.reason;
      EXPECT_GT(host->lambda_used, 0);
      EXPECT_EQ(outcome.factor->lambda_used, host->lambda_used) << "n " << n;
      EXPECT_EQ(outcome.factor->lambda_tried, host->lambda_tried) << "n " << n;
    }
  }
}

}  // namespace
}  // namespace cortiq::device::test
