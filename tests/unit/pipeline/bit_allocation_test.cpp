// The allocation of bits against exhaustive search on small problems.
#include "../../../src/pipeline/bit_allocation.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "cortiq/support/error.hpp"

namespace cortiq::pipeline {
namespace {

std::vector<TensorOptions> random_tensors(int count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> loss(0.01, 1.0);
  std::vector<TensorOptions> tensors;
  for (int t = 0; t < count; ++t) {
    const std::uint64_t size = 1 + generator() % 5;
    const double l = loss(generator);
    tensors.push_back({"t" + std::to_string(t),
                       100 * size,
                       {{codec::Codec::kQ2tp, 28 * size, l},
                        {codec::Codec::kQ4tp, 53 * size, l / 16},
                        {codec::Codec::kQ82f, 101 * size, l / 4000},
                        {codec::Codec::kF16, 200 * size, 0}}});
  }
  return tensors;
}

/// Least loss of all combinations within the budget; negative: none fits.
double exhaustive(const std::vector<TensorOptions>& tensors, std::uint64_t budget) {
  double best = -1;
  const std::function<void(std::size_t, std::uint64_t, double)> visit = [&](std::size_t t, std::uint64_t bytes, double loss) {
    if (bytes > budget) return;
    if (t == tensors.size()) {
      if (best < 0 || loss < best) best = loss;
      return;
    }
    for (const CodecOption& option : tensors[t].options) visit(t + 1, bytes + option.bytes, loss + option.loss);
  };
  visit(0, 0, 0);
  return best;
}

TEST(BitAllocationTest, allocation_is_close_to_the_best_of_all_combinations) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const auto tensors = random_tensors(6, seed);
    std::uint64_t least = 0, most = 0;
    for (const auto& tensor : tensors) {
      least += tensor.options.front().bytes;
      most += tensor.options.back().bytes;
    }
    for (std::uint64_t budget = least; budget <= most; budget += 37) {
      const auto allocation = allocate(tensors, budget);
      ASSERT_TRUE(allocation);
      EXPECT_LE(allocation->bytes, budget);
      // Greedy steps miss at most what the best single upgrade that did not fit would have gained.
      double step = 0;
      for (std::size_t t = 0; t < tensors.size(); ++t)
        step = std::max(step, tensors[t].options[allocation->chosen[t]].loss);
      EXPECT_LE(allocation->loss, exhaustive(tensors, budget) + step + 1e-12);
    }
    EXPECT_FALSE(allocate(tensors, least - 1));
    EXPECT_EQ(allocate(tensors, most)->loss, 0.0);
  }
}

TEST(BitAllocationTest, a_larger_budget_never_predicts_a_larger_loss_from_hull_steps) {
  const auto tensors = random_tensors(30, 7);
  double before = 1e9;
  std::uint64_t least = 0;
  for (const auto& tensor : tensors) least += tensor.options.front().bytes;
  for (std::uint64_t budget = least; budget < 8 * least; budget += least / 3) {
    const auto allocation = allocate(tensors, budget);
    EXPECT_LE(allocation->loss, before * 1.05);
    before = allocation->loss;
  }
}

TEST(BitAllocationTest, a_codec_that_costs_more_and_loses_more_is_never_chosen) {
  const std::vector<TensorOptions> tensors{{"t", 100, {{codec::Codec::kQ2tp, 30, 0.5}, {codec::Codec::kQ4tp, 60, 0.6}, {codec::Codec::kQ82f, 110, 0.1}}}};
  EXPECT_EQ(allocate(tensors, 100)->chosen[0], 0U);
  EXPECT_EQ(allocate(tensors, 110)->chosen[0], 2U);
}

TEST(BitAllocationTest, a_file_size_is_used_up_to_one_upgrade_and_the_least_file_is_possible) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    auto tensors = random_tensors(12, seed);
    for (auto& tensor : tensors)
      for (auto& option : tensor.options) option.bytes *= 100;
    // A file: a fixed part, and every payload filled up to the next 4096.
    const auto file_bytes = [&](const Allocation& allocation) {
      std::uint64_t bytes = 70000;
      for (std::size_t t = 0; t < tensors.size(); ++t)
        bytes += (tensors[t].options[allocation.chosen[t]].bytes + 4095) / 4096 * 4096;
      return bytes;
    };
    const std::vector<std::size_t> smallest(tensors.size(), 0), largest(tensors.size(), 3);
    const std::uint64_t least = file_bytes({smallest, 0, 0}), most = file_bytes({largest, 0, 0});
    EXPECT_FALSE(allocate_file(tensors, least - 1, file_bytes));
    EXPECT_EQ(file_bytes(*allocate_file(tensors, least, file_bytes)), least);
    EXPECT_EQ(allocate_file(tensors, most, file_bytes)->chosen, largest);
    for (std::uint64_t wanted = least; wanted < most; wanted += 20011) {
      const auto allocation = allocate_file(tensors, wanted, file_bytes);
      ASSERT_TRUE(allocation);
      const std::uint64_t used = file_bytes(*allocation);
      EXPECT_LE(used, wanted);
      std::uint64_t step = 0;  // the largest upgrade of one tensor
      for (std::size_t t = 0; t < tensors.size(); ++t)
        step = std::max(step, tensors[t].options[3].bytes - tensors[t].options[0].bytes + 4096);
      EXPECT_LT(wanted - used, step);
    }
  }
}

TEST(BitAllocationTest, sizes_are_read_with_decimal_and_binary_units) {
  EXPECT_EQ(parse_size("1234"), 1234U);
  EXPECT_EQ(parse_size("1.5MB"), 1500000U);
  EXPECT_EQ(parse_size("2GiB"), 2147483648U);
  EXPECT_EQ(parse_size("3kB"), 3000U);
  for (const char* text : {"", "MB", "-1", "1.5XB", "0", "nan"}) EXPECT_THROW(static_cast<void>(parse_size(text)), Error) << text;
  try {
    static_cast<void>(parse_size("0"));
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--target-size 0: expected"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cortiq::pipeline
