#include "ladder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/half.hpp"
#include "device_arrays.hpp"
#include "device_fixture.hpp"

namespace cortiq::device {
namespace {

using codec::LadderParams;
using test::DeviceArrays;

constexpr std::int64_t kGroup = 32;
constexpr double kTieShare = 0.02;      // of the rows: near ties of scales or tops that fall otherwise in f32 sums
constexpr double kTieError = 1e-3;      // how much worse such a row may be
constexpr float kTableTolerance = 1e-6F;

LadderParams params_of(std::uint32_t word) {
  return {static_cast<std::uint16_t>(word & 0xFFFFU), static_cast<std::uint16_t>(word >> 16)};
}
std::uint32_t word_of(LadderParams p) { return p.lo | (std::uint32_t{p.step} << 16); }

/// Below `bound`.
std::uint32_t draw(std::mt19937& generator, std::uint32_t bound) {
  return static_cast<std::uint32_t>(generator() % bound);
}

/// Rows of groups of different sizes, among them groups, rows and channels of zeros.
struct Problem {
  std::int64_t rows, n;
  std::vector<float> weights, live, hw;
  std::vector<float> seen;  ///< weights with dead channels at zero
  [[nodiscard]] std::span<const float> row(std::int64_t r) const {
    return std::span(seen).subspan(static_cast<std::size_t>(r * n), static_cast<std::size_t>(n));
  }
  [[nodiscard]] std::int64_t groups() const { return n / kGroup; }
};

Problem make_problem(std::int64_t rows, std::int64_t n, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  Problem p{rows, n, std::vector<float>(static_cast<std::size_t>(rows * n)),
            std::vector<float>(static_cast<std::size_t>(n), 1.0F),
            std::vector<float>(static_cast<std::size_t>(n)), {}};
  for (auto& h : p.hw) h = std::exp2(2.0F * normal(generator));
  for (std::size_t c = 5; c < p.live.size(); c += 29) p.live[c] = p.hw[c] = 0.0F;
  for (std::size_t i = 0; i < p.weights.size(); i += kGroup) {
    const float size = uniform(generator) < 0.1F ? 0.0F : 0.02F * std::exp2(0.7F * normal(generator));
    for (std::size_t j = i; j < i + kGroup; ++j) p.weights[j] = size * normal(generator);
  }
  if (rows > 2) std::fill_n(p.weights.begin() + 2 * n, n, 0.0F);
  p.seen = p.weights;
  for (std::size_t i = 0; i < p.seen.size(); ++i) p.seen[i] *= p.live[i % static_cast<std::size_t>(n)];
  return p;
}

struct Placed {
  std::vector<LadderParams> params;
  std::vector<std::uint8_t> rungs;
};

Placed place_on_host(const Problem& p, LadderRule rule) {
  Placed host;
  host.rungs.resize(static_cast<std::size_t>(p.rows * p.groups()));
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const auto rungs = std::span(host.rungs).subspan(static_cast<std::size_t>(r * p.groups()),
                                                     static_cast<std::size_t>(p.groups()));
    if (rule == LadderRule::kQ4tp) host.params.push_back(codec::q4tp_converter_row(p.row(r), rungs));
    if (rule == LadderRule::kCortiq) host.params.push_back(codec::q2tp_v1_row(p.row(r), rungs));
    if (rule == LadderRule::kPlaced)
      host.params.push_back(codec::q2tp_place_row(p.row(r), p.hw, rungs));
  }
  return host;
}

Placed place_on_device(DeviceArrays& arrays, const Problem& p, LadderRule rule, bool widen) {
  const auto weights = arrays.upload(p.weights), live = arrays.upload(p.live), hw = arrays.upload(p.hw);
  const auto params = arrays.poisoned(p.rows), rungs = arrays.poisoned(p.rows * p.groups());
  RowLadders work;
  work.rule = rule;
  work.widen = widen;
  work.rows = p.rows;
  work.n = p.n;
  work.weights = weights.address();
  work.live = live.address();
  work.hw = hw.address();
  work.params = params.address();
  work.rungs = widen ? 0 : rungs.address();
  place_row_ladders(arrays.engine, arrays.stream, work);
  arrays.stream.barrier();
  Placed placed;
  for (const std::uint32_t word : arrays.words(params)) placed.params.push_back(params_of(word));
  for (const std::uint32_t word : arrays.words(rungs)) {
    EXPECT_TRUE(widen ? word == DeviceArrays::kPoison : word < 32) << word;
    placed.rungs.push_back(static_cast<std::uint8_t>(word));
  }
  return placed;
}

/// Squared error of a row on a ladder of q2tp, each group at its best rung.
double row_error(const Problem& p, std::int64_t row, LadderParams params, bool weighted) {
  const codec::Ladder ladder = codec::q2tp_ladder(params);
  double sum = 0;
  for (std::int64_t g = 0; g < p.groups(); ++g) {
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t c = 1; c < ladder.size(); ++c) {
      const double s = static_cast<double>(ladder[c]);
      double error = 0;
      for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
        const double w = static_cast<double>(p.row(row)[static_cast<std::size_t>(i)]);
        const double d = w - (std::clamp(std::nearbyint(w / s + 1.5), 0.0, 3.0) - 1.5) * s;
        error += (weighted ? static_cast<double>(p.hw[static_cast<std::size_t>(i)]) : 1.0) * d * d;
      }
      best = std::min(best, error);
    }
    const auto group = p.row(row).subspan(static_cast<std::size_t>(g * kGroup), kGroup);
    if (std::ranges::any_of(group, [](float w) { return w != 0; })) sum += best;
  }
  return sum;
}

class LadderTest : public test::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (context_) arrays_ = std::make_unique<DeviceArrays>(context_);
  }
  void TearDown() override {
    arrays_.reset();
    DeviceTest::TearDown();
  }
  /// Equal to the host but for near ties, which may cost next to nothing.
  void compare(LadderRule rule) {
    std::int64_t rows = 0, other_params = 0, groups = 0, other_rungs = 0;
    for (const auto& [r, n] : {std::pair{1, 32}, {3, 96}, {70, 544}, {6, 8224}}) {
      const Problem p = make_problem(r, n, static_cast<std::uint32_t>(n + r));
      const Placed host = place_on_host(p, rule);
      const Placed device = place_on_device(*arrays_, p, rule, false);
      ASSERT_EQ(device.params.size(), host.params.size());
      ASSERT_EQ(device.rungs.size(), host.rungs.size());
      for (std::int64_t row = 0; row < r; ++row, ++rows) {
        const auto i = static_cast<std::size_t>(row);
        if (device.params[i] != host.params[i]) {
          ++other_params;
          ASSERT_NE(rule, LadderRule::kQ4tp) << "row " << row << " n " << n;
          const bool weighted = rule == LadderRule::kPlaced;
          EXPECT_LT(row_error(p, row, device.params[i], weighted),
                    (1 + kTieError) * row_error(p, row, host.params[i], weighted))
              << "row " << row << " n " << n;
          continue;
        }
        groups += p.groups();
        for (std::int64_t g = row * p.groups(); g < (row + 1) * p.groups(); ++g)
          other_rungs += device.rungs[static_cast<std::size_t>(g)] != host.rungs[static_cast<std::size_t>(g)];
      }
    }
    RecordProperty("other_params", static_cast<int>(other_params));
    RecordProperty("other_rungs", static_cast<int>(other_rungs));
    EXPECT_LE(static_cast<double>(other_params), kTieShare * static_cast<double>(rows));
    EXPECT_LE(static_cast<double>(other_rungs), 1e-3 * static_cast<double>(groups));
  }
  std::unique_ptr<DeviceArrays> arrays_;
};

TEST_F(LadderTest, q4tp_ladders_and_rungs_are_the_hosts) { compare(LadderRule::kQ4tp); }
TEST_F(LadderTest, placed_q2tp_ladders_and_rungs_are_the_hosts) { compare(LadderRule::kPlaced); }
TEST_F(LadderTest, cortiq_q2tp_ladders_and_rungs_are_the_hosts) { compare(LadderRule::kCortiq); }

LadderParams covering(float lo, float top, int above) {
  const std::uint16_t low = f32_to_f16(lo);
  return {low, codec::covering_step(low, top, above)};
}

TEST_F(LadderTest, widened_ladders_reach_further_at_both_ends) {
  const Problem p = make_problem(20, 992, 7);
  for (const LadderRule rule : {LadderRule::kQ4tp, LadderRule::kPlaced, LadderRule::kCortiq}) {
    const Placed ordinary = place_on_device(*arrays_, p, rule, false);
    const Placed wide = place_on_device(*arrays_, p, rule, true);
    ASSERT_EQ(wide.params.size(), 20U);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      float lo = f16_to_f32(ordinary.params[static_cast<std::size_t>(r)].lo);
      float top = lo + 30.0F * f16_to_f32(ordinary.params[static_cast<std::size_t>(r)].step);
      if (rule == LadderRule::kQ4tp) {
        lo = std::numeric_limits<float>::infinity();
        top = -lo;
        for (std::int64_t g = 0; g < p.groups(); ++g) {
          float most = 0;
          for (std::int64_t i = 0; i < kGroup; ++i)
            most = std::max(most, std::fabs(p.row(r)[static_cast<std::size_t>(g * kGroup + i)]));
          if (most == 0) continue;
          lo = std::min(lo, codec::det_log2(codec::f16_scale(most / 7.0F)));
          top = std::max(top, codec::det_log2(codec::f16_scale(most / 7.0F)));
        }
      }
      const bool zero = r == 2;
      const LadderParams expected = zero ? ordinary.params[2]
                                         : covering(lo - 0.6F, top + 0.1F, rule == LadderRule::kQ4tp ? 31 : 30);
      EXPECT_EQ(word_of(wide.params[static_cast<std::size_t>(r)]), word_of(expected)) << "row " << r;
    }
  }
}

TEST_F(LadderTest, weights_beyond_the_scales_of_a_file_give_an_infinite_last_scale) {
  Problem p = make_problem(4, 64, 3);
  for (std::int64_t i = 0; i < 64; ++i) p.weights[static_cast<std::size_t>(i)] = 1e7F;        // all groups
  p.weights[64] = 1e7F;                                                                       // one group
  for (const LadderRule rule : {LadderRule::kQ4tp, LadderRule::kPlaced, LadderRule::kCortiq}) {
    const Placed placed = place_on_device(*arrays_, p, rule, true);
    std::vector<std::uint32_t> words;
    for (const LadderParams params : placed.params) words.push_back(word_of(params));
    const auto params = arrays_->upload(words);
    const auto table = arrays_->poisoned(32 * 4);
    fill_ladder_tables(arrays_->engine, arrays_->stream, {rule, 4, params.address(), table.address()});
    arrays_->stream.barrier();
    const auto bits = arrays_->words(table);
    EXPECT_TRUE(std::isinf(std::bit_cast<float>(bits.at(31))));
    EXPECT_TRUE(std::isinf(std::bit_cast<float>(bits.at(63))));
    EXPECT_TRUE(std::isfinite(std::bit_cast<float>(bits.at(127))));
  }
}

TEST_F(LadderTest, refitted_ladders_span_the_rungs_that_were_used) {
  constexpr std::int64_t kRows = 67, kGroups = 131;
  std::mt19937 generator(11);
  std::vector<std::uint32_t> wide, rungs;
  for (std::int64_t r = 0; r < kRows; ++r) {
    wide.push_back(word_of(covering(-11.0F + 0.05F * static_cast<float>(r), -3.0F, 30)));
    const std::uint32_t least = 1 + draw(generator, 20), span = 1 + draw(generator, 11);
    for (std::int64_t g = 0; g < kGroups; ++g)
      rungs.push_back(r == 5 || draw(generator, 8) == 0 ? layout::kNoRung : least + draw(generator, span));
  }
  const auto wide_buffer = arrays_->upload(wide), rung_buffer = arrays_->upload(rungs);
  for (const LadderRule rule : {LadderRule::kQ4tp, LadderRule::kPlaced}) {
    const auto params = arrays_->poisoned(kRows);
    refit_ladders(arrays_->engine, arrays_->stream,
                  {rule, kRows, kGroups, wide_buffer.address(), rung_buffer.address(), params.address()});
    arrays_->stream.barrier();
    const auto words = arrays_->words(params);
    ASSERT_EQ(words.size(), static_cast<std::size_t>(kRows));
    const int first = rule == LadderRule::kQ4tp ? 0 : 1;
    for (std::int64_t r = 0; r < kRows; ++r) {
      int least = 99, greatest = -1;
      for (std::int64_t g = r * kGroups; g < (r + 1) * kGroups; ++g) {
        const std::uint32_t used = rungs[static_cast<std::size_t>(g)];
        if (used == layout::kNoRung) continue;
        least = std::min(least, static_cast<int>(used));
        greatest = std::max(greatest, static_cast<int>(used));
      }
      const LadderParams before = params_of(wide[static_cast<std::size_t>(r)]);
      const float lo = f16_to_f32(before.lo), step = f16_to_f32(before.step);
      const LadderParams expected =
          greatest < 0 ? before
                       : covering(lo + step * static_cast<float>(least - first),
                                  lo + step * static_cast<float>(greatest - first), 31 - first);
      EXPECT_EQ(words[static_cast<std::size_t>(r)], word_of(expected)) << "row " << r;
    }
  }
}

TEST_F(LadderTest, tables_hold_the_scales_of_the_host_for_every_half) {
  std::vector<std::uint32_t> words;
  for (std::uint32_t step = 0; step < 0x4000; ++step) words.push_back(0xC800U | (step << 16));  // lo -8
  for (std::uint32_t lo = 0x8000; lo < 0xD7E0; ++lo) words.push_back(lo | (0x3400U << 16));     // step 0.25, lo > -126
  for (std::uint32_t lo = 0; lo < 0x5800; ++lo) words.push_back(lo | (0x3400U << 16));
  const auto rows = static_cast<std::int64_t>(words.size());
  const auto params = arrays_->upload(words);
  for (const LadderRule rule : {LadderRule::kQ4tp, LadderRule::kPlaced}) {
    const auto table = arrays_->poisoned(32 * rows);
    fill_ladder_tables(arrays_->engine, arrays_->stream, {rule, rows, params.address(), table.address()});
    arrays_->stream.barrier();
    const auto bits = arrays_->words(table);
    ASSERT_EQ(bits.size(), words.size() * 32);
    std::int64_t different = 0;
    for (std::size_t r = 0; r < words.size(); ++r) {
      const codec::Ladder host = rule == LadderRule::kQ4tp ? codec::q4tp_ladder(params_of(words[r]))
                                                           : codec::q2tp_ladder(params_of(words[r]));
      for (std::size_t c = 0; c < 32; ++c) {
        const float scale = std::bit_cast<float>(bits[32 * r + c]);
        if (scale == host[c]) continue;
        ++different;
        ASSERT_LE(std::fabs(scale - host[c]), kTableTolerance * host[c]) << "row " << r << " rung " << c;
      }
    }
    RecordProperty("different", static_cast<int>(different));
    EXPECT_LE(different, static_cast<std::int64_t>(bits.size() / 1000));
  }
}

}  // namespace
}  // namespace cortiq::device
