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

namespace cortiq::calib {
namespace {

using Clock = std::chrono::steady_clock;
using Key = std::tuple<std::int64_t, model::Role, std::int64_t>;
constexpr std::int64_t kBlock = linalg::kGramBlockTokens;
/// Rows per task of the finite check.
constexpr std::int64_t kCheckRows = 64;

struct Accumulator {
  std::unique_ptr<Hessian> hessian;  // made when the first rows arrive
  std::vector<float> carry;          // rows of an unfinished block, [carried, width]
  std::int64_t count = 0;
};

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
  State(std::vector<model::InputGroup> g, Pool& p)
      : groups(std::move(g)), accumulators(groups.size()), pool(p) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool added =
          index.emplace(Key{groups[i].layer, groups[i].role, groups[i].expert}, i).second;
      CORTIQ_ASSERT(added);
    }
  }

  void add(std::int64_t width, Accumulator& to, ConstMatrixView<float> x);
  void add_blocks(Accumulator& to, ConstMatrixView<float> x) {
    if (to.hessian == nullptr) to.hessian = std::make_unique<Hessian>(x.cols());
    linalg::gram_accumulate(x, to.hessian->view(), pool);
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
  double seconds = 0;
};

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

Capture::Capture(std::vector<model::InputGroup> groups, Pool& pool)
    : state_(std::make_unique<State>(std::move(groups), pool)) {}
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

std::unique_ptr<Hessian> Capture::take(std::size_t index) {
  const Clock::time_point start = Clock::now();
  Accumulator taken = std::exchange(state_->accumulators[index], {});
  const std::int64_t width = state_->groups[index].width;
  state_->add_carry(width, taken);
  if (taken.hessian == nullptr) taken.hessian = std::make_unique<Hessian>(width);
  Hessian& hessian = *taken.hessian;
  hessian.count = taken.count;
  hessian.sum_squares.resize(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < width; ++i)
    hessian.sum_squares[static_cast<std::size_t>(i)] = hessian.view()(i, i);
  state_->seconds += std::chrono::duration<double>(Clock::now() - start).count();
  return std::move(taken.hessian);
}

double Capture::seconds() const { return state_->seconds; }

}  // namespace cortiq::calib
