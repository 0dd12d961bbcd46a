#include "cortiq/pipeline/devices.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace cortiq::pipeline {
namespace {

TEST(DevicesTest, json_of_a_device_says_what_it_lacks_and_that_it_cannot_be_used) {
  device::DeviceInfo info;
  info.index = 2;
  info.name = "card";
  info.memory_bytes = 8000000000;
  EXPECT_TRUE(device_json(info)["usable"].get<bool>());
  info.missing = {"shaderInt64"};
  const cmf::Json json = device_json(info);
  EXPECT_FALSE(json["usable"].get<bool>());
  EXPECT_EQ(json["missing"][0], "shaderInt64");
  EXPECT_EQ(json["index"], 2);
  EXPECT_EQ(json["memory_bytes"], 8000000000);
}

TEST(DevicesTest, json_of_a_kernel_without_words_says_that_it_is_absent) {
  EXPECT_FALSE(kernel_json({"operand_gemm_coop", 0, true})["present"].get<bool>());
  EXPECT_TRUE(kernel_json({"operand_gemm", 1200, false})["present"].get<bool>());
}

TEST(DevicesTest, json_of_a_selftest_holds_each_line_and_speeds_in_teraflops) {
  device::SelftestReport report;
  report.lines = {{"plain", "U", 1e-6, 2e-4, false}, {"plain", "share", std::numeric_limits<double>::quiet_NaN(), 0.8, true}};
  report.speeds = {{"plain", "fold, n 1000", 2e9, 4, 5, 8}};
  const cmf::Json json = selftest_json(report);
  EXPECT_FALSE(json["passed"].get<bool>());
  EXPECT_TRUE(json["lines"][0]["passed"].get<bool>());
  EXPECT_TRUE(json["lines"][1]["value"].is_null());
  EXPECT_EQ(json["lines"][1]["is"], "at least");
  EXPECT_NEAR(json["speeds"][0]["device_tflops"].get<double>(), 0.5, 1e-12);  // 2 GFLOP in 4 ms
  EXPECT_NEAR(json["speeds"][0]["host_tflops"].get<double>(), 0.25, 1e-12);
}

}  // namespace
}  // namespace cortiq::pipeline
