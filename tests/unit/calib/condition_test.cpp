#include "cortiq/calib/condition.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cache_files.hpp"

namespace cortiq::calib {
namespace {

/// Q diag(values) Q with a Householder reflection Q, so the eigenvalues are known.
Hessian with_eigenvalues(const std::vector<double>& values, unsigned seed) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> v;
  double norm = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    v.push_back(normal(generator));
    norm += v.back() * v.back();
  }
  const auto q = [&](std::size_t i, std::size_t j) {
    return (i == j ? 1.0 : 0.0) - 2 * v[i] * v[j] / norm;
  };
  Hessian hessian(n);
  hessian.count = 2 * n;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < values.size(); ++k) sum += q(i, k) * values[k] * q(j, k);
      hessian.view()(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)) = sum;
    }
  }
  return hessian;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Condition, finds_known_extreme_eigenvalues_and_what_damping_makes_of_them) {
  Pool pool(1);
  std::vector<double> values;
  for (int i = 0; i < 70; ++i) values.push_back(std::pow(10.0, 5.0 - 0.1 * i));  // 1e5 .. 1e-1.9
  Hessian hessian = with_eigenvalues(values, 3);
  const Condition found = estimate_condition(hessian, pool).value();
  EXPECT_NEAR(found.largest / values.front(), 1, 0.02);
  ASSERT_TRUE(found.smallest.has_value());
  EXPECT_NEAR(*found.smallest / values.back(), 1, 0.02);
  EXPECT_NEAR(found.number(0) / (values.front() / values.back()), 1, 0.04);
  const double damping = 0.01 * mean(values);
  EXPECT_NEAR(found.number(0.01) / ((values.front() + damping) / (values.back() + damping)), 1,
              0.04);
}

TEST(Condition, a_singular_hessian_has_none_until_it_is_damped) {
  Pool pool(1);
  std::vector<double> values(40, 0.0);
  values[0] = 8;
  values[1] = 2;
  Hessian hessian = with_eigenvalues(values, 5);
  const Condition found = estimate_condition(hessian, pool).value();
  EXPECT_FALSE(found.smallest.has_value());
  EXPECT_TRUE(std::isinf(found.number(0)));
  EXPECT_NEAR(found.largest, 8, 0.1);
  const double damping = 0.5 * 10.0 / 40;
  EXPECT_NEAR(found.number(0.5), (8 + damping) / damping, 2);
}

TEST(Condition, dead_channels_are_left_out) {
  Pool pool(1);
  Hessian hessian(5);
  hessian.count = 9;
  hessian.view()(0, 0) = 4;
  hessian.view()(2, 2) = 4;
  hessian.view()(0, 2) = 3;  // eigenvalues 7 and 1
  const Condition found = estimate_condition(hessian, pool).value();
  EXPECT_NEAR(found.largest, 7, 0.05);
  EXPECT_NEAR(found.smallest.value(), 1, 0.02);
  EXPECT_EQ(found.mean_diagonal, 4);
  Hessian unseen(3);
  EXPECT_FALSE(estimate_condition(unseen, pool).has_value());
}

TEST(Condition, does_not_depend_on_the_number_of_threads) {
  std::vector<double> numbers;
  for (const int threads : {1, 2, 5}) {
    Pool pool(threads);
    const auto hessian = test::random_hessian(300, 11);
    numbers.push_back(estimate_condition(*hessian, pool).value().number(0));
  }
  EXPECT_EQ(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[0], numbers[2]);
}

}  // namespace
}  // namespace cortiq::calib
