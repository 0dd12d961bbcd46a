#include <gtest/gtest.h>

#include "cortiq/gptq/fold.hpp"
#include "device_fixture.hpp"
#include "factor.hpp"
#include "random_problem.hpp"

namespace cortiq::device {
namespace {

using test::DeviceTest;

constexpr double kUTolerance = 2e-4;  // relative Frobenius, issue goal for condition numbers up to 1e6

/// U of the device in the host's units, upper triangle.
std::vector<double> read_u(const Engine& engine, const DeviceFactor& factor) {
  vulkan::Stream stream(engine.shared_context());
  const std::int64_t n = factor.n();
  const std::int64_t size = factor.size;
  std::vector<float> band(static_cast<std::size_t>(size * kBlockColumns));
  download(engine, stream, factor.band, 0, std::as_writable_bytes(std::span(band)));
  std::vector<std::uint32_t> lines(static_cast<std::size_t>(size * size));
  download(engine, stream, factor.u.lines, 0, std::as_writable_bytes(std::span(lines)));
  const auto half = [](std::uint32_t bits) {
    const std::uint32_t exponent = bits >> 10 & 31U, mantissa = bits & 1023U;
    const double value = exponent == 0 ? std::ldexp(mantissa, -24)
                                       : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
    return (bits & 0x8000U) != 0 ? -value : value;
  };
  std::vector<double> u(static_cast<std::size_t>(n * n), 0.0);
  const double unit = 1.0 / std::sqrt(factor.scaling.base);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t k = j; k < n; ++k) {
      double value = 0;
      if (j / kBlockColumns == k / kBlockColumns) {
        value = band[static_cast<std::size_t>(j * kBlockColumns + k % kBlockColumns)];
      } else {
        const auto line = static_cast<std::size_t>((j / 32 * size + k) * 32);
        const auto at = static_cast<std::size_t>(j % 32);
        if (engine.split()) {
          const std::uint32_t high = lines[line + at / 2] >> (at % 2 * 16) & 0xffffU;
          const std::uint32_t low = lines[line + 16 + at / 2] >> (at % 2 * 16) & 0xffffU;
          value = (half(high) + half(low)) / static_cast<double>(factor.u.scale);
        } else {
          float f = 0;
          std::memcpy(&f, &lines[line + at], 4);
          value = f;
        }
      }
      u[static_cast<std::size_t>(j * n + k)] = value * unit;
    }
  }
  return u;
}

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
        EXPECT_LT(relative_distance(read_u(engine, *outcome.factor), host->u()), kUTolerance)
            << "n " << n << " split " << engine.split();
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::device
