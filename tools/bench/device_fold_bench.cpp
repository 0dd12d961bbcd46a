// device_fold_bench.cpp: the fold on a Vulkan device, one JSON line per case, so that two runs can be compared.
//   device_fold_bench [device index] [n ...]
// Time is the device's own (timestamps), best of at least three after a warm-up; sections are of one profiled run.
// Reference figures of torch on an H200: docs/benchmarks.md. Error: |U^T U H_d v - v| / |v| in f64 for a random v.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "device_bench.hpp"

namespace cortiq::device::bench {
namespace {

/// FOLD_BENCH_PANEL: columns of a panel instead of the default, to find the best.
std::int64_t panel_columns() {
  const char* text = std::getenv("FOLD_BENCH_PANEL");
  return text != nullptr ? std::atoll(text) : 0;
}

void run_case(const Engine& engine, Pool& pool, std::int64_t n) {
  const SyntheticHessian h(n, pool);
  vulkan::Stream stream(engine.shared_context());
  const gptq::FoldOptions options{.lambda = 0.01, .order = gptq::Order::kGroup};
  double best = 1e30, best_wall = 1e30, worst_submission = 0;
  FoldOutcome outcome;
  const Clock total;  // idle cards take some tenths of a second to reach their clock rate
  for (int round = 0; round < 4 || total.seconds() < 0.5; ++round) {
    outcome = {};
    const double before = stream.busy_seconds();
    const Clock clock;
    FoldTimes times;
    times.panel = panel_columns();
    outcome = fold_on_device(engine, stream, pool, h.view(), options, &times);
    stream.finish();
    const double busy = times.device_seconds > 0 ? times.device_seconds : stream.busy_seconds() - before;
    if (round > 0) {
      best = std::min(best, busy);
      best_wall = std::min(best_wall, clock.seconds());
    }
    worst_submission = std::max(worst_submission, stream.longest_submission());
  }
  std::string sections;
  {
    vulkan::Stream profiled(engine.shared_context());
    profiled.enable_profile();
    FoldOutcome again = fold_on_device(engine, profiled, pool, h.view(), options);
    profiled.finish();
    for (const vulkan::Section& s : profiled.take_profile())
      sections += fmt::format("{}\"{}\": [{:.3f}, {}]", sections.empty() ? "" : ", ", s.name,
                              s.seconds * 1e3, s.count);
  }
  const double flops = 2.0 / 3.0 * std::pow(static_cast<double>(n), 3);
  const double error = outcome.factor && n <= 5120 ? h.inverse_error(engine, *outcome.factor) : -1;
  std::printf(
      "{\"case\": \"fold\", \"n\": %lld, \"path\": \"%s\", \"device_ms\": %.3f, \"wall_ms\": %.1f, \"tflops\": %.1f, "
      "\"error\": %.2e, \"longest_ms\": %.1f, \"declined\": \"%s\", \"ms\": {%s}}\n",
      static_cast<long long>(n), engine.split() ? "cooperative" : "plain", best * 1e3,
      best_wall * 1e3, flops / best * 1e-12, error, worst_submission * 1e3, outcome.reason.c_str(),
      sections.c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace cortiq::device::bench

int main(int count, char** arguments) {
  using namespace cortiq::device::bench;
  return run_on_device(count, arguments, {1024, 4096, 5120, 17408},
                       [](const cortiq::device::Engine& engine, cortiq::Pool& pool, std::int64_t n) {
                         run_case(engine, pool, n);
                       });
}
