#include <gtest/gtest.h>

#include <limits>

#include "cortiq/gptq/fold.hpp"

namespace cortiq::gptq {
namespace {

std::vector<double> diagonal(const std::vector<double>& values) {
  const std::size_t n = values.size();
  std::vector<double> h(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) h[i * n + i] = values[i];
  return h;
}

std::vector<std::int64_t> order_of(const std::vector<double>& values, Order order) {
  const std::vector<double> h = diagonal(values);
  const auto n = static_cast<std::int64_t>(values.size());
  return elimination_order(ConstMatrixView<double>(h.data(), n, n), order);
}

TEST(EliminationOrder, natural_counts_up) {
  EXPECT_EQ(order_of({3, 1, 2}, Order::kNatural), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(EliminationOrder, act_sorts_descending_with_ties_by_lower_index_and_dead_last) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(order_of({1, -4, 2, 1, nan, 5}, Order::kAct),
            (std::vector<std::int64_t>{5, 2, 0, 3, 1, 4}));
  // Equal after rounding to f32: the lower index stays first.
  EXPECT_EQ(order_of({1.0, 1.0 + 1e-12}, Order::kAct), (std::vector<std::int64_t>{0, 1}));
}

TEST(EliminationOrder, group_keeps_groups_of_32_together) {
  std::vector<double> values(96, 1.0);
  for (std::size_t i = 64; i < 96; ++i) values[i] = 2.0;  // heaviest group
  values[40] = 9.0;  // loud channel in group 1, which outweighs group 0
  const auto order = order_of(values, Order::kGroup);
  ASSERT_EQ(order.size(), 96U);
  EXPECT_EQ(order[0], 64);
  EXPECT_EQ(order[31], 95);
  EXPECT_EQ(order[32], 40);
  EXPECT_EQ(order[33], 32);
  EXPECT_EQ(order[64], 0);
}

TEST(FindNonFinite, names_the_first_entry_of_the_upper_triangle) {
  std::vector<double> h = diagonal(std::vector<double>(8, 1.0));
  Pool pool(2);
  const ConstMatrixView<double> view(h.data(), 8, 8);
  EXPECT_FALSE(find_non_finite_upper(view, pool).has_value());
  h[3 * 8 + 1] = std::numeric_limits<double>::infinity();  // below the diagonal: not read
  EXPECT_FALSE(find_non_finite_upper(view, pool).has_value());
  h[5 * 8 + 6] = std::numeric_limits<double>::quiet_NaN();
  h[2 * 8 + 7] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(find_non_finite_upper(view, pool), 2 * 8 + 7);
}

TEST(Fold, reports_dead_channels_and_an_input_that_calibration_did_not_reach) {
  std::vector<double> values(64, 0.0);
  values[3] = 2.0;
  const std::vector<double> h = diagonal(values);
  Pool pool(1);
  const auto factor = fold_host(ConstMatrixView<double>(h.data(), 64, 64), {}, pool);
  EXPECT_EQ(factor->dead_channels, 63);
  EXPECT_TRUE(factor->mostly_dead);
  EXPECT_TRUE(factor->identity);
  EXPECT_TRUE(factor->dead_rows_zero);
}

TEST(Fold, damping_unit_is_the_mean_of_the_live_channels) {
  std::vector<double> values(32, 4.0);
  values[0] = 0.0;
  const std::vector<double> h = diagonal(values);
  Pool pool(1);
  const auto factor = fold_host(ConstMatrixView<double>(h.data(), 32, 32), {.lambda = 0.5}, pool);
  EXPECT_DOUBLE_EQ(factor->damping, 2.0);
  EXPECT_EQ(factor->lambda_used, 0.5);
  EXPECT_FALSE(factor->mostly_dead);
}

}  // namespace
}  // namespace cortiq::gptq
