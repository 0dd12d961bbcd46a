// Capture: rows of each wanted input are gathered to blocks of kGramBlockTokens and added to its
// Hessian.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "cortiq/calib/hessian.hpp"
#include "cortiq/linalg/gram.hpp"
#include "cortiq/support/error.hpp"
#include "hessian_spill.hpp"

namespace cortiq::calib {
namespace {

using Clock = std::chrono::steady_clock;
using Key = std::tuple<std::int64_t, model::Role, std::int64_t>;
constexpr std::int64_t kBlock = linalg::kGramBlockTokens;
/// Rows per task of the finite check.
constexpr std::int64_t kCheckRows = 64;

struct Accumulator {
  std::unique_ptr<Hessian> hessian;  // made when the first rows arrive; null while it is spilled
  std::vector<float> carry;          // rows of an unfinished block, [carried, width]
  std::int64_t count = 0;
  std::int64_t used = 0;  // clock of the last use
  bool spilled = false;
};

std::vector<std::int64_t> widths_of(const std::vector<model::InputGroup>& groups) {
  std::vector<std::int64_t> widths;
  for (const model::InputGroup& group : groups) widths.push_back(group.width);
  return widths;
}

/// Count and sums of squares of a matrix that is complete.
void finish(Hessian& hessian, std::int64_t count) {
  hessian.count = count;
  hessian.sum_squares.resize(static_cast<std::size_t>(hessian.n()));
  for (std::int64_t i = 0; i < hessian.n(); ++i)
    hessian.sum_squares[static_cast<std::size_t>(i)] = hessian.view()(i, i);
}

/// By the exponent bits and in lanes, which compilers turn into vector code: this reads every
/// activation once more.
bool row_is_finite(const float* row, std::int64_t width) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU;
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr std::int64_t kLanes = 16;
  std::array<std::uint32_t, kLanes> largest{};
  const auto see = [&](std::size_t lane, float value) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & kMagnitude;
    largest[lane] = std::max(largest[lane], magnitude);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      see(lane, row[i + static_cast<std::int64_t>(lane)]);
    }
  }
  for (; i < width; ++i) see(0, row[i]);
  return *std::max_element(largest.begin(), largest.end()) < kInfinity;
}

std::string input_name(const model::LinearInput& input) {
  std::string name =
      fmt::format("calibration: layer {}, input {}", input.layer, model::role_name(input.role));
  if (input.expert >= 0) name += fmt::format(" of expert {}", input.expert);
  return name;
}

void check_finite(const model::LinearInput& input, std::int64_t rows_before, Pool& pool) {
  const std::int64_t width = input.x.cols();
  pool.for_ranges(input.x.rows(), kCheckRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = input.x.row(r);
      if (row_is_finite(row, width)) continue;
      const float* bad =
          std::find_if_not(row, row + width, [](float v) { return std::isfinite(v); });
      fail(ErrorKind::kNumeric,
           "{}: row {} is {} at channel {}; the model's activations overflow or its weights are "
           "damaged, so check the model "
           "with `verify` and `ppl`",
           input_name(input), rows_before + r, *bad, bad - row);
    }
  });
}

}  // namespace

struct Capture::State {
  State(std::vector<model::InputGroup> g, Pool& p, std::optional<CaptureLimit> l)
      : groups(std::move(g)), accumulators(groups.size()), pool(p), limit(std::move(l)) {
    if (limit && !groups.empty())
      spill = std::make_unique<HessianSpill>(limit->folder, widths_of(groups));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool added =
          index.emplace(Key{groups[i].layer, groups[i].role, groups[i].expert}, i).second;
      CORTIQ_ASSERT(added);
    }
  }

  void add(std::int64_t width, Accumulator& to, ConstMatrixView<float> x);
  void add_blocks(Accumulator& to, ConstMatrixView<float> x) {
    linalg::gram_accumulate(x, resident(to, x.cols()).view(), pool);
  }
  /// The matrix, brought back from disk where it lies there; others make room for it.
  Hessian& resident(Accumulator& of, std::int64_t width);
  void make_room(const Accumulator& for_whom, std::int64_t width);
  void put_away(Accumulator& from);
  [[nodiscard]] std::size_t index_of(const Accumulator& of) const {
    return static_cast<std::size_t>(&of - accumulators.data());
  }
  void add_carry(std::int64_t width, Accumulator& to) {
    if (to.carry.empty()) return;
    const auto rows = static_cast<std::int64_t>(to.carry.size()) / width;
    add_blocks(to, {to.carry.data(), rows, width});
    to.carry.clear();
  }

  std::vector<model::InputGroup> groups;
  std::vector<Accumulator> accumulators;
  std::map<Key, std::size_t> index;
  Pool& pool;
  std::optional<CaptureLimit> limit;
  std::unique_ptr<HessianSpill> spill;
  std::int64_t clock = 0;
  double seconds = 0;
};

Hessian& Capture::State::resident(Accumulator& of, std::int64_t width) {
  of.used = ++clock;
  if (of.hessian != nullptr) return *of.hessian;
  if (spill) make_room(of, width);
  of.hessian = of.spilled ? spill->read(index_of(of)) : std::make_unique<Hessian>(width);
  of.spilled = false;
  return *of.hessian;
}

void Capture::State::make_room(const Accumulator& for_whom, std::int64_t width) {
  for (;;) {
    std::uint64_t bytes = resident_hessian_bytes(width);
    Accumulator* oldest = nullptr;
    for (Accumulator& other : accumulators) {
      if (other.hessian == nullptr || &other == &for_whom) continue;
      bytes += resident_hessian_bytes(other.hessian->n());
      if (oldest == nullptr || other.used < oldest->used) oldest = &other;
    }
    if (bytes <= limit->resident_bytes || oldest == nullptr) return;
    put_away(*oldest);
  }
}

void Capture::State::put_away(Accumulator& from) {
  spill->write(index_of(from), *from.hessian);
  from.hessian.reset();
  from.spilled = true;
}

void Capture::State::add(std::int64_t width, Accumulator& to, ConstMatrixView<float> x) {
  std::int64_t next = 0;
  const auto keep_rows = [&](std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r, ++next)
      to.carry.insert(to.carry.end(), x.row(next), x.row(next) + width);
  };
  if (!to.carry.empty()) {
    const auto carried = static_cast<std::int64_t>(to.carry.size()) / width;
    keep_rows(std::min(kBlock - carried, x.rows()));
    if (static_cast<std::int64_t>(to.carry.size()) == kBlock * width) add_carry(width, to);
  }
  // Whole blocks go straight from the caller's rows.
  const std::int64_t whole = (x.rows() - next) / kBlock * kBlock;
  if (whole > 0) add_blocks(to, x.block(next, 0, whole, width));
  next += whole;
  keep_rows(x.rows() - next);
  to.count += x.rows();
}

Capture::Capture(std::vector<model::InputGroup> groups, Pool& pool,
                 std::optional<CaptureLimit> limit)
    : state_(std::make_unique<State>(std::move(groups), pool, std::move(limit))) {}
Capture::~Capture() = default;

bool Capture::wants(std::int64_t layer, model::Role role, std::int64_t expert) const {
  return state_->index.contains(Key{layer, role, expert});
}

void Capture::observe(const model::LinearInput& input) {
  const auto found = state_->index.find(Key{input.layer, input.role, input.expert});
  if (found == state_->index.end() || input.x.rows() == 0) return;
  const Clock::time_point start = Clock::now();
  const std::int64_t width = state_->groups[found->second].width;
  if (input.x.cols() != width) {
    fail(ErrorKind::kInput,
         "{}: its rows have {} channels, but the tensors that read it have {} columns; the model "
         "is damaged",
         input_name(input), input.x.cols(), width);
  }
  Accumulator& to = state_->accumulators[found->second];
  check_finite(input, to.count, state_->pool);
  state_->add(width, to, input.x);
  state_->seconds += std::chrono::duration<double>(Clock::now() - start).count();
}

void Capture::settle() {
  const Clock::time_point start = Clock::now();
  State& s = *state_;
  for (std::size_t i = 0; i < s.accumulators.size(); ++i) {
    Accumulator& of = s.accumulators[i];
    if (of.count > 0) s.add_carry(s.groups[i].width, of);
    of.carry.shrink_to_fit();
    if (s.spill == nullptr) {
      finish(s.resident(of, s.groups[i].width), of.count);
    } else if (of.hessian != nullptr) {
      s.put_away(of);
    }
  }
  s.seconds += std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t Capture::count(std::size_t index) const { return state_->accumulators[index].count; }

std::shared_ptr<const Hessian> Capture::read(std::size_t index) const {
  const Accumulator& of = state_->accumulators[index];
  if (of.hessian != nullptr)
    return {std::shared_ptr<const void>(), of.hessian.get()};
  std::unique_ptr<Hessian> copy = of.spilled
                                      ? state_->spill->read(index)
                                      : std::make_unique<Hessian>(state_->groups[index].width);
  finish(*copy, of.count);
  return copy;
}

std::unique_ptr<Hessian> Capture::take(std::size_t index) {
  State& s = *state_;
  Accumulator& of = s.accumulators[index];
  const std::int64_t width = s.groups[index].width;
  s.add_carry(width, of);
  std::unique_ptr<Hessian> taken = std::move(of.hessian);
  if (taken == nullptr)
    taken = of.spilled ? s.spill->read(index) : std::make_unique<Hessian>(width);
  finish(*taken, of.count);
  of = {};
  return taken;
}

double Capture::seconds() const { return state_->seconds; }

}  // namespace cortiq::calib
