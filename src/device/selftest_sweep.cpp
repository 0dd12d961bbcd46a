// selftest_sweep.cpp: output errors of the device's sweeps against the host's, option by option, and their bytes.
#include <algorithm>
#include <cmath>
#include <map>

#include "cortiq/codec/decode.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/sweep.hpp"
#include "selftest_checks.hpp"
#include "stack.hpp"

namespace cortiq::device {

namespace {

using gptq::SweepOptions;

constexpr double kOutputError = 1.001;   // goal: output error against the host's on the same H
constexpr double kReported = 2e-3;       // device's own figures against f64: 11 bits a factor where halves are used
constexpr double kEqualNibbles = 0.8;    // P17
constexpr std::int64_t kWidth = 352;     // one whole block of columns and a part
constexpr std::int64_t kRows = 512;      // single codes that fall the other way must average out below 0.1 %

SweepOptions converter(gptq::Target target, gptq::Order order) {
  SweepOptions options;
  options.target = target;
  options.order = order;
  options.rung = gptq::Rung::kDiag;
  options.ladder = gptq::LadderFit::kConverter;
  return options;
}

/// Both targets with every order, rung rule and ladder rule, both placements of q2tp, debias, polish.
std::vector<SweepOptions> every_option() {
  using namespace gptq;
  std::vector<SweepOptions> list;
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    for (const Order order : {Order::kNatural, Order::kGroup, Order::kAct}) {
      for (const Rung rung : {Rung::kDiag, Rung::kSim}) {
        for (const LadderFit ladder : {LadderFit::kConverter, LadderFit::kFit}) {
          // Rungs and ladders are fixed beforehand with act order.
          if (order == Order::kAct && (rung != Rung::kDiag || ladder != LadderFit::kConverter)) continue;
          SweepOptions options = converter(target, order);
          options.rung = rung;
          options.ladder = ladder;
          list.push_back(options);
        }
      }
    }
    SweepOptions all;
    all.target = target;
    all.rung = Rung::kAll;
    list.push_back(all);
    SweepOptions finished;
    finished.target = target;
    finished.polish = 2;
    finished.debias = true;
    list.push_back(finished);
    finished.group_moves = true;
    list.push_back(finished);
  }
  for (const Order order : {Order::kGroup, Order::kAct}) {
    SweepOptions cortiq = converter(Target::kQ2tp, order);
    cortiq.rule = Q2tpRule::kCortiq;
    list.push_back(cortiq);
  }
  return list;
}

struct Factors {
  std::unique_ptr<gptq::HostFactor> host;
  std::unique_ptr<DeviceFactor> device;
};

/// The true output error of a payload, f64.
gptq::OutputError truth_of(const SelftestProblem& problem, const SweepOptions& options,
                           const std::vector<std::byte>& payload, Pool& pool) {
  std::vector<float> values(problem.w.size());
  const std::int64_t shape[2] = {problem.rows, problem.n};
  const auto dtype = options.target == gptq::Target::kQ4tp ? cmf::DType::kQ4tp : cmf::DType::kQ2tp;
  const codec::RowDecoder decoder(dtype, shape, payload, codec::LadderKind::kDeterministic);
  decoder.decode_all({values.data(), problem.rows, problem.n}, pool);
  return gptq::output_error(problem.weights(), {values.data(), problem.rows, problem.n}, problem.hessian(), pool);
}

class SweepChecks {
 public:
  explicit SweepChecks(const SelftestRun& run)
      : run_(run),
        stream_(run.engine.shared_context()),
        problem_(make_selftest_problem({.rows = kRows, .n = kWidth, .samples = 3 * kWidth, .dead = {70}, .loud = {5, 200}, .seed = 11},
                                       run.pool)) {}

  void outputs() {
    double worst_error = 0, worst_energy = 0;
    for (const SweepOptions& options : every_option()) {
      const Factors& factors = factors_of(options.order);
      const auto host = gptq::sweep_host(problem_.weights(), problem_.hessian(), *factors.host, options, run_.pool);
      const auto device = sweep(options);
      const auto truth = truth_of(problem_, options, device.payload, run_.pool);
      const auto host_truth = truth_of(problem_, options, host.payload, run_.pool);
      run_.at_most(fmt::format("P16: {}: output error / host's", describe_options(options)), truth.error / host_truth.error,
                   kOutputError);
      worst_error = std::max(worst_error, std::fabs(device.output_error / truth.error - 1));
      worst_energy = std::max(worst_energy, std::fabs(device.output_energy / truth.energy - 1));
      if (options == converter(gptq::Target::kQ4tp, gptq::Order::kNatural)) compare_nibbles(host.payload, device.payload);
    }
    run_.at_most("reported output error against the payload's, worst", worst_error, kReported);
    run_.at_most("reported output energy against f64, worst", worst_energy, kReported);
  }

  /// Four factors carry nearly all of the energy, condition 5e5: what an inexact U costs in the output.
  void ill_conditioned() {
    const auto problem = make_selftest_problem({.rows = kRows, .n = kWidth, .samples = 3 * kWidth, .common = 300}, run_.pool);
    const SweepOptions options = converter(gptq::Target::kQ4tp, gptq::Order::kGroup);
    const gptq::FoldOptions fold{.lambda = 2e-4};
    const auto factor = gptq::fold_host(problem.hessian(), fold, run_.pool);
    const auto host = gptq::sweep_host(problem.weights(), problem.hessian(), *factor, options, run_.pool);
    const FoldOutcome outcome = fold_on_device(run_.engine, stream_, run_.pool, problem.hessian(), fold);
    if (!outcome.factor) fail(ErrorKind::kDevice, "the fold was declined: {}", outcome.reason);
    const ConstMatrixView<float> one[1] = {problem.weights()};
    const auto device = sweep_on_device(run_.engine, stream_, run_.pool, *outcome.factor, one, options);
    run_.at_most("P16: condition 5e5: q4tp group diag converter: output error / host's",
                 truth_of(problem, options, device.front().payload, run_.pool).error /
                     truth_of(problem, options, host.payload, run_.pool).error,
                 kOutputError);
  }

  /// P21, P22: a second pass that moves nothing but the ladders' lowest rungs.
  void debias() {
    for (const gptq::Target target : {gptq::Target::kQ4tp, gptq::Target::kQ2tp}) {
      SweepOptions options = converter(target, gptq::Order::kGroup);
      const auto plain = sweep(options).payload;
      options.debias = true;
      const auto moved = sweep(options).payload;
      const int bits = target == gptq::Target::kQ4tp ? 4 : 2;
      const codec::PlaneLayout plane = codec::plane_layout(bits, problem_.rows, problem_.n);
      std::int64_t elsewhere = 0, rows_moved = 0;
      for (std::uint64_t i = 0; i < plane.bytes; ++i) {
        if (plain[i] == moved[i]) continue;
        const bool in_lo = i >= plane.params_offset && i < plane.rungs_offset && (i - plane.params_offset) % 4 < 2;
        elsewhere += in_lo ? 0 : 1;
        rows_moved += in_lo ? 1 : 0;
      }
      const char* number = bits == 4 ? "P22: q4tp" : "P21: q2tp";
      run_.at_most(fmt::format("{} debias: bytes changed beside lo", number), static_cast<double>(elsewhere), 0);
      run_.at_least(fmt::format("{} debias: bytes of lo changed", number), static_cast<double>(rows_moved), 1);
    }
  }

  void bytes() {
    for (const gptq::Target target : {gptq::Target::kQ4tp, gptq::Target::kQ2tp}) {
      SweepOptions options;
      options.target = target;
      options.polish = 1;
      options.debias = true;
      const ConstMatrixView<float> w = problem_.weights();
      // q/k/v: tensors of unequal height in one sweep.
      const ConstMatrixView<float> stack[3] = {w.block(0, 0, 300, kWidth), w.block(300, 0, 37, kWidth), w.block(337, 0, 128, kWidth)};
      const auto whole = sweep_stack(stack, options, 0);
      const std::string name = describe_options(options);
      run_.at_most(fmt::format("P35: {}: bytes that differ between two runs", name), differing(whole, sweep_stack(stack, options, 0)), 0);
      run_.at_most(fmt::format("P34: {}: bytes that chunks of rows change", name), differing(whole, sweep_stack(stack, options, 128)), 0);
      std::vector<gptq::SweepResult> singles;
      for (std::size_t t = 0; t < 3; ++t)
        singles.push_back(std::move(sweep_stack(std::span(stack + t, 1), options, 0).front()));
      run_.at_most(fmt::format("{}: bytes that stacking tensors changes", name), differing(whole, singles), 0);
    }
  }

 private:
  const Factors& factors_of(gptq::Order order) {
    Factors& factors = factors_[static_cast<int>(order)];
    if (factors.device) return factors;
    const gptq::FoldOptions options{.lambda = 0.01, .order = order, .keep_damped = true};
    factors.host = gptq::fold_host(problem_.hessian(), options, run_.pool);
    FoldOutcome outcome = fold_on_device(run_.engine, stream_, run_.pool, problem_.hessian(), options);
    if (!outcome.factor) fail(ErrorKind::kDevice, "the fold was declined: {}", outcome.reason);
    factors.device = std::move(outcome.factor);
    return factors;
  }

  std::vector<gptq::SweepResult> sweep_stack(StackSweep::Weights weights, const SweepOptions& options, std::int64_t chunk) {
    const Factors& factors = factors_of(options.order);
    return with_context(describe_options(options), [&] {
      return sweep_on_device(run_.engine, stream_, run_.pool, *factors.device, weights, options, chunk);
    });
  }

  gptq::SweepResult sweep(const SweepOptions& options) {
    const ConstMatrixView<float> one[1] = {problem_.weights()};
    return std::move(sweep_stack(one, options, 0).front());
  }

  static double differing(const std::vector<gptq::SweepResult>& a, const std::vector<gptq::SweepResult>& b) {
    std::int64_t count = 0;
    for (std::size_t t = 0; t < a.size(); ++t) {
      for (std::size_t i = 0; i < a[t].payload.size(); ++i) count += a[t].payload[i] != b[t].payload[i] ? 1 : 0;
    }
    return static_cast<double>(count);
  }

  void compare_nibbles(const std::vector<std::byte>& host, const std::vector<std::byte>& device) const {
    const auto bytes = static_cast<std::size_t>(problem_.rows * problem_.n / 2);
    std::size_t equal = 0;
    for (std::size_t i = 0; i < bytes; ++i) equal += host[i] == device[i] ? 1 : 0;
    run_.at_least("P17: q4tp nibble bytes equal to the host's, share", static_cast<double>(equal) / static_cast<double>(bytes),
                  kEqualNibbles);
  }

  const SelftestRun& run_;
  vulkan::Stream stream_;
  SelftestProblem problem_;
  std::map<int, Factors> factors_;
};

}  // namespace

std::string describe_options(const SweepOptions& options) {
  const char* const orders[] = {"natural", "group", "act"};
  const char* const rungs[] = {"diag", "sim", "all"};
  std::string text = options.target == gptq::Target::kQ4tp ? "q4tp"
                     : options.rule == gptq::Q2tpRule::kPlaced ? "q2tp placed"
                                                               : "q2tp cortiq";
  text += fmt::format(" {} {} {}", orders[static_cast<int>(options.order)], rungs[static_cast<int>(options.rung)],
                      options.ladder == gptq::LadderFit::kFit ? "fit" : "converter");
  if (options.polish > 0) text += fmt::format(" polish {}", options.polish);
  if (options.group_moves) text += " moves";
  if (options.debias) text += " debias";
  return text;
}

void check_sweeps(const SelftestRun& run) {
  SweepChecks checks(run);
  checks.outputs();
  checks.ill_conditioned();
  checks.debias();
}

void check_bytes(const SelftestRun& run) { SweepChecks(run).bytes(); }

}  // namespace cortiq::device
