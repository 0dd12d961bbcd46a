#include <gtest/gtest.h>

#include "cortiq/gptq/fold.hpp"
#include "device_fixture.hpp"
#include "factor.hpp"
#include "random_problem.hpp"

#include <cmath>

namespace cortiq::device {
namespace {

using test::DeviceTest;

constexpr double kUTolerance = 2e-4;  // relative Frobenius, issue goal for condition numbers up to 1e6

double relative_distance(const std::vector<double>& u, ConstMatrixView<double> reference) {
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

TEST_F(DeviceTest, fold_agrees_with_the_host_for_every_width) {
  Pool pool(2);
  for (const Path path : paths()) {
    const Engine engine(context_, path);
    vulkan::Stream stream(context_);
    for (const std::int64_t n : {1, 2, 31, 33, 64, 127, 128, 129, 256, 300, 513}) {
      const auto h = test::random_hessian(n, 2 * n, 8.0, static_cast<std::uint32_t>(n));
      for (const gptq::Order order : {gptq::Order::kNatural, gptq::Order::kGroup}) {
        const gptq::FoldOptions options{.lambda = 0.01, .order = order};
        const auto host = gptq::fold_host(h.view(), options, pool);
        const FoldOutcome outcome = fold_on_device(engine, stream, pool, h.view(), options);
        ASSERT_TRUE(outcome.factor) << "n " << n << ": " << outcome.reason;
        EXPECT_EQ(outcome.factor->scaling.elimination, host->elimination);
        EXPECT_LT(relative_distance(read_factor(engine, *outcome.factor), host->u()), kUTolerance)
            << "n " << n << " split " << engine.split();
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::device
