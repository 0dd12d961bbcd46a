// device_sweep_bench.cpp: sweep, polish, energy and debias on a Vulkan device, one JSON line per case.
//   device_sweep_bench [device index] [rows n ...]
// Device time of each part, best of at least two after a warm-up. Reference: torch's column loop on an H200 (docs/benchmarks.md).
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "device_bench.hpp"
#include "stack.hpp"

namespace cortiq::device::bench {
namespace {

struct Case {
  const char* name;
  gptq::SweepOptions options;
};

std::vector<Case> cases() {
  using namespace gptq;
  SweepOptions diag;
  diag.order = Order::kNatural;
  diag.rung = Rung::kDiag;
  diag.ladder = LadderFit::kConverter;
  SweepOptions placed = diag;
  placed.target = Target::kQ2tp;
  placed.debias = true;
  SweepOptions standard;
  standard.polish = 2;
  SweepOptions standard2 = standard;
  standard2.target = Target::kQ2tp;
  standard2.debias = true;
  return {{"q4tp diag", diag}, {"q2tp placed", placed}, {"q4tp default", standard}, {"q2tp default", standard2}};
}

struct Parts {
  double ladders = 1e30, sweep = 1e30, polish = 1e30, measure = 1e30, pack = 1e30;
};

std::vector<float> random_weights(std::int64_t rows, std::int64_t n, Pool& pool) {
  std::vector<float> values(static_cast<std::size_t>(rows * n));
  pool.for_ranges(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::mt19937 generator(static_cast<std::uint32_t>(r));
      std::normal_distribution<float> normal(0.0F, 0.02F);
      for (std::int64_t c = 0; c < n; ++c) values[static_cast<std::size_t>(r * n + c)] = normal(generator);
    }
  });
  return values;
}

void run_case(const Engine& engine, Pool& pool, std::int64_t rows, std::int64_t n) {
  const SyntheticHessian h(n, pool);
  const std::vector<float> values = random_weights(rows, n, pool);
  const ConstMatrixView<float> w[1] = {{values.data(), rows, n}};
  for (const Case& c : cases()) {
    vulkan::Stream stream(engine.shared_context());
    const FoldOutcome fold = fold_on_device(engine, stream, pool, h.view(), {.lambda = 0.01, .order = c.options.order});
    if (!fold.factor) continue;
    const DampedHessian damped = make_damped_hessian(engine, stream, *fold.factor);
    stream.finish();
    Parts best;
    double error = 0;
    const Clock clock;  // idle cards take some tenths of a second to reach their clock rate
    for (int round = 0; round < 3 || clock.seconds() < 0.5; ++round) {
      std::vector<gptq::SweepResult> results(1);
      StackSweep stack(engine, stream, pool, *fold.factor, c.options);
      double before = 0;
      const auto part = [&](double& least, auto&& work) {
        stream.finish();
        before = stream.busy_seconds();
        work();
        stream.finish();
        if (round > 0) least = std::min(least, stream.busy_seconds() - before);
      };
      part(best.ladders, [&] { stack.load(w, {{0, 0, rows, 0}}, 0.12F); });
      part(best.sweep, [&] { stack.sweep(); });
      part(best.polish, [&] { stack.polish(damped); });
      part(best.measure, [&] { stack.measure(damped, results); });
      part(best.pack, [&] { stack.pack(w, results); });
      error = results[0].output_error / results[0].output_energy;
    }
    std::string sections;
    {
      vulkan::Stream profiled(engine.shared_context());
      profiled.enable_profile();
      std::vector<gptq::SweepResult> results(1);
      StackSweep stack(engine, profiled, pool, *fold.factor, c.options);
      stack.load(w, {{0, 0, rows, 0}}, 0.12F);
      stack.sweep();
      stack.polish(damped);
      stack.measure(damped, results);
      stack.pack(w, results);
      profiled.finish();
      for (const vulkan::Section& s : profiled.take_profile())
        sections += fmt::format("{}\"{}\": [{:.2f}, {}]", sections.empty() ? "" : ", ", s.name, s.seconds * 1e3, s.count);
    }
    std::printf(
        "{\"case\": \"%s\", \"rows\": %lld, \"n\": %lld, \"path\": \"%s\", \"upload_and_ladders_ms\": %.2f, \"sweep_ms\": %.2f, "
        "\"polish_ms\": %.2f, \"energy_and_debias_ms\": %.2f, \"pack_ms\": %.2f, \"error\": %.6f, \"ms\": {%s}}\n",
        c.name, static_cast<long long>(rows), static_cast<long long>(n),
        engine.split() ? "cooperative" : "plain", best.ladders * 1e3, best.sweep * 1e3,
        best.polish * 1e3, best.measure * 1e3, best.pack * 1e3, error, sections.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace cortiq::device::bench

int main(int count, char** arguments) {
  using namespace cortiq::device::bench;
  std::int64_t rows = 0;
  return run_on_device(count, arguments, {4096, 4096, 5120, 17408},
                       [&rows](const cortiq::device::Engine& engine, cortiq::Pool& pool, std::int64_t number) {
                         if (rows == 0) {
                           rows = number;
                           return;
                         }
                         run_case(engine, pool, rows, number);
                         rows = 0;
                       });
}
