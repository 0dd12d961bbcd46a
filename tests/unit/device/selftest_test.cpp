#include "cortiq/device/selftest.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cortiq/gptq/fold.hpp"
#include "device_fixture.hpp"
#include "selftest_checks.hpp"

namespace cortiq::device {
namespace {

using test::DeviceTest;

ErrorKind kind_of(std::string_view device) {
  try {
    (void)choose_selftest_devices(device);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kInput;  // nothing was thrown
}

TEST(SelftestTest, a_value_that_is_not_a_number_passes_on_neither_side) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE((SelftestLine{"plain", "x", nan, 1, false}.passed()));
  EXPECT_FALSE((SelftestLine{"plain", "x", nan, 1, true}.passed()));
  EXPECT_TRUE((SelftestLine{"plain", "x", 1, 1, false}.passed()));
  EXPECT_TRUE((SelftestLine{"plain", "x", 1, 1, true}.passed()));
  EXPECT_FALSE((SelftestLine{"plain", "x", 1.1, 1, false}.passed()));
  EXPECT_FALSE((SelftestLine{"plain", "x", 0.9, 1, true}.passed()));
}

TEST(SelftestTest, a_report_without_lines_or_with_a_part_that_ended_early_has_not_passed) {
  SelftestReport report;
  EXPECT_FALSE(report.passed());
  report.lines.push_back({"plain", "x", 0, 1, false});
  EXPECT_TRUE(report.passed());
  report.problems.emplace_back("sweeps: the device is gone");
  EXPECT_FALSE(report.passed());
}

TEST(SelftestTest, devices_that_cannot_be_tested_are_refused) {
  EXPECT_EQ(kind_of("cpu"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of("vulcan"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of("vulkan:no such name"), ErrorKind::kDevice);
}

TEST(SelftestTest, problems_have_the_channels_that_were_asked_for) {
  Pool pool(2), one(1);
  const ProblemSpec spec{.rows = 3, .n = 64, .samples = 200, .dead = {17}, .loud = {5}};
  const auto problem = make_selftest_problem(spec, pool);
  EXPECT_EQ(problem.h, make_selftest_problem(spec, one).h);
  EXPECT_EQ(problem.w.size(), 192U);
  double quiet = 0;
  for (std::int64_t c = 0; c < 64; ++c) {
    EXPECT_EQ(problem.hessian()(17, c), 0);
    if (c != 5) quiet = std::max(quiet, problem.hessian()(c, c));
  }
  EXPECT_GT(problem.hessian()(5, 5), 50 * quiet);
}

TEST(SelftestTest, condition_of_a_diagonal_hessian_is_the_ratio_of_its_ends) {
  Pool pool(1);
  const SelftestProblem problem{0, 3, {4, 0, 0, 0, 1, 0, 0, 0, 100}, {}};
  const auto factor = gptq::fold_host(problem.hessian(), {.lambda = 0, .order = gptq::Order::kNatural}, pool);
  EXPECT_NEAR(damped_condition(problem, factor->damping, factor->elimination, factor->u()), 100, 1e-6);
}

TEST_F(DeviceTest, the_fold_part_of_the_selftest_passes_and_measures_something) {
  Pool pool(2);
  for (const Path path : paths()) {
    SelftestReport report;
    const Engine engine(context_, path);
    NullLog log;
    const Interrupt interrupt;
    check_folds(SelftestRun{engine, pool, log, interrupt, report});
    EXPECT_TRUE(report.passed());
    EXPECT_GE(report.lines.size(), 12U);
    double largest = 0;
    for (const SelftestLine& line : report.lines) {
      EXPECT_TRUE(line.passed()) << line.property << ": " << line.value;
      largest = std::max(largest, line.value);
    }
    EXPECT_GT(largest, 0);
  }
}

TEST_F(DeviceTest, an_interrupt_ends_the_selftest_at_the_next_measurement) {
  Pool pool(1);
  const Engine engine(context_, Path::kPlain);
  SelftestReport report;
  NullLog log;
  Interrupt interrupt;
  interrupt.request();
  try {
    check_folds(SelftestRun{engine, pool, log, interrupt, report});
    ADD_FAILURE() << "not interrupted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInterrupted);
  }
  EXPECT_TRUE(report.lines.empty());
}

}  // namespace
}  // namespace cortiq::device
