#include "ladder.hpp"

#include <algorithm>

#include "cortiq/support/error.hpp"

namespace cortiq::device {

namespace {

using vulkan::Kernel;

constexpr std::int64_t kGroup = 32;
constexpr std::int64_t kMostThreads = 256;
constexpr std::int64_t kThreadStep = 32;
constexpr std::uint32_t kThreads = 64;       // of the small kernels
constexpr std::int64_t kRowsAtOnce = 1024;   // bounds the length of one dispatch
constexpr double kErrorFlops = 5;            // a weight and a candidate scale
constexpr double kQ4ErrorFlops = 8;
constexpr double kTops = 4;

std::uint32_t u32(std::int64_t value) {
  CORTIQ_ASSERT(value >= 0 && value <= std::int64_t{0xFFFFFFFF});
  return static_cast<std::uint32_t>(value);
}

std::uint64_t per_thread(std::int64_t rows) {
  return static_cast<std::uint64_t>((rows + kThreads - 1) / kThreads);
}

std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

/// Equal rounds of the loop over groups for as many threads as possible.
std::uint32_t row_threads(std::int64_t groups) {
  const std::int64_t rounds = std::max<std::int64_t>(1, (groups + kMostThreads - 1) / kMostThreads);
  return u32(rounded_up(std::max<std::int64_t>(1, (groups + rounds - 1) / rounds), kThreadStep));
}

/// Operations a weight.
double place_flops(const RowLadders& work) {
  switch (work.rule) {
    case LadderRule::kPlaced: return (31 + kTops * 31) * kErrorFlops;
    case LadderRule::kCortiq: return (kTops * 5 + (work.rungs != 0 ? 4 : 0)) * kErrorFlops;
    case LadderRule::kQ4tp: break;
  }
  return 2 + (work.rungs != 0 ? 4 * kQ4ErrorFlops : 0);
}

}  // namespace

LadderRule ladder_rule(const gptq::SweepOptions& options) {
  CORTIQ_ASSERT(!gptq::is_one_bit(options.target));
  if (options.target == gptq::Target::kQ4tp) return LadderRule::kQ4tp;
  return options.rule == gptq::Q2tpRule::kCortiq ? LadderRule::kCortiq : LadderRule::kPlaced;
}

void place_row_ladders(const Engine& engine, vulkan::Stream& stream, const RowLadders& work) {
  CORTIQ_ASSERT(work.n % kGroup == 0 && (work.hw != 0 || work.rule != LadderRule::kPlaced));
  const std::int64_t groups = work.n / kGroup;
  const std::uint32_t constants[3] = {static_cast<std::uint32_t>(work.rule), work.widen ? 1U : 0U,
                                      work.rungs != 0 ? 1U : 0U};
  const auto& kernel = engine.pipeline(Kernel::kRowLadder, row_threads(groups), constants);
  for (std::int64_t first = 0; first < work.rows; first += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, work.rows - first);
    const auto skipped = static_cast<std::uint64_t>(first);
    layout::LadderPush push{};
    push.weights = work.weights + 4 * skipped * static_cast<std::uint64_t>(work.n);
    push.live = work.live;
    push.hw = work.hw;
    push.params = work.params + 4 * skipped;
    push.rungs = work.rungs == 0 ? 0 : work.rungs + 4 * skipped * static_cast<std::uint64_t>(groups);
    push.groups = u32(groups);
    push.rows = u32(rows);
    stream.dispatch(kernel, push, static_cast<std::uint64_t>(rows));
    stream.account(place_flops(work) * static_cast<double>(rows) * static_cast<double>(work.n));
  }
}

void refit_ladders(const Engine& engine, vulkan::Stream& stream, const LadderRefit& work) {
  if (work.rows == 0) return;
  layout::RefitPush push{};
  push.wide = work.wide;
  push.rungs = work.rungs;
  push.params = work.params;
  push.groups = u32(work.groups);
  push.rows = u32(work.rows);
  const std::uint32_t rule[1] = {static_cast<std::uint32_t>(work.rule)};
  stream.dispatch(engine.pipeline(Kernel::kLadderRefit, kThreads, rule), push,
                  static_cast<std::uint64_t>(work.rows));
}

void fill_ladder_tables(const Engine& engine, vulkan::Stream& stream, const LadderTables& work) {
  if (work.rows == 0) return;
  layout::TablePush push{};
  push.params = work.params;
  push.table = work.table;
  push.rows = u32(work.rows);
  const std::uint32_t rule[1] = {static_cast<std::uint32_t>(work.rule)};
  stream.dispatch(engine.pipeline(Kernel::kLadderTable, kThreads, rule), push,
                  per_thread(work.rows));
}

}  // namespace cortiq::device
