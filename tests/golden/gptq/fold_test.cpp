// The fold against the reference operator: U, dead channels, damping retries (gptq.md section 3).
#include "cortiq/gptq/fold.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "data_dirs.hpp"
#include "gptq_case.hpp"

namespace cortiq::gptq {
namespace {

using test::GptqCase;

constexpr double kRowTolerance = 1e-6;  // golden README, "close"

void expect_factor(const HostFactor& factor, const GptqCase& c, const std::string& u_file) {
  EXPECT_EQ(factor.dead, c.dead);
  EXPECT_EQ(factor.dead_channels, std::count(c.dead.begin(), c.dead.end(), std::uint8_t{1}));
  const std::vector<double> expected = c.widen_upper(c.read<float>(u_file));
  for (std::int64_t i = 0; i < c.n; ++i) {
    const double* row = expected.data() + i * c.n;
    double largest = 0;
    for (std::int64_t j = i; j < c.n; ++j) largest = std::max(largest, std::fabs(row[j]));
    for (std::int64_t j = 0; j < c.n; ++j) {
      ASSERT_LE(std::fabs(factor.u()(i, j) - row[j]), kRowTolerance * largest)
          << "U[" << i << "][" << j << "]";
    }
  }
}

TEST(GoldenFold, matches_the_reference_operator) {
  const auto folders = test::golden_cases("fold-");
  if (folders.empty()) GTEST_SKIP() << "no golden folder: " << test::golden_dir();
  Pool pool(2);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const GptqCase c(folder);
    const auto factor = fold_host(
        c.hessian(),
        {.lambda = c.json["lambda"], .base = c.reference_base(), .order = Order::kNatural}, pool);
    const auto tried = c.json["lambda_tried"].get<std::vector<double>>();
    ASSERT_EQ(factor->lambda_tried.size(), tried.size());
    for (std::size_t i = 0; i < tried.size(); ++i)
      EXPECT_NEAR(factor->lambda_tried[i], tried[i], 1e-12 * tried[i]);
    EXPECT_EQ(factor->identity, !c.json["factored"].get<bool>() || factor->mostly_dead);
    if (!factor->identity) {
      EXPECT_EQ(factor->lambda_used, factor->lambda_tried.back());
    }
    expect_factor(*factor, c, "u_upper.f32");
  }
}

TEST(GoldenFold, act_order_permutes_as_the_reference_does) {
  const auto folders = test::golden_cases("gptq-");
  if (folders.empty()) GTEST_SKIP() << "no golden folder: " << test::golden_dir();
  Pool pool(2);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const GptqCase c(folder);
    const auto factor = fold_host(
        c.hessian(), {.lambda = c.json["lambda"], .base = c.reference_base(), .order = Order::kAct},
        pool);
    const auto perm = c.read<std::uint32_t>("perm.u32");
    ASSERT_EQ(factor->elimination, std::vector<std::int64_t>(perm.begin(), perm.end()));
    if (std::filesystem::exists(folder / "u_perm_upper.f32")) {
      expect_factor(*factor, c, "u_perm_upper.f32");
    }
  }
}

}  // namespace
}  // namespace cortiq::gptq
