// gptq_bench.cpp: fold and sweep on the host against OpenBLAS in the same run.
//   Fold     against dpotrf + dtrtri of the same matrix.
//   Sweep    q4tp, diag, converter ladder, natural order, and q2tp placed, against one dgemm of
//   rows*n*n/2 products
//            (rows*n^2 flops, gptq.md section 11).
//   Default  sim + fit + group, whose two sweeps are counted together; ladders_s and measure_s are
//   apart.
// Counter "ratio": time of OpenBLAS / ours. Threads: GPTQ_BENCH_THREADS (default 1). Unset
// OPENBLAS_CORETYPE.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "cortiq/gptq/backend.hpp"
#include "cortiq/gptq/fold.hpp"
#include "cortiq/gptq/sweep.hpp"

extern "C" {
void openblas_set_num_threads(int threads);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dtrtri_(const char* uplo, const char* diag, const int* n, double* a, const int* lda,
             int* info);
}

namespace {

using namespace cortiq;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostRows = 4096;

int bench_threads() {
  const char* text = std::getenv("GPTQ_BENCH_THREADS");
  return text != nullptr ? std::atoi(text) : 1;
}

template <typename Fn>
double seconds(Fn&& fn) {
  const auto begin = Clock::now();
  fn();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Problem {
  std::int64_t n;
  std::int64_t rows;
  std::vector<float> w;
  std::vector<double> h;
  ConstMatrixView<double> hessian() const { return {h.data(), n, n}; }
  ConstMatrixView<float> weights() const { return {w.data(), rows, n}; }
};

/// Smoothly correlated channels of different loudness: well conditioned once damped.
const Problem& problem(std::int64_t n) {
  static std::map<std::int64_t, Problem> cache;
  const auto found = cache.find(n);
  if (found != cache.end()) return found->second;
  Problem p{n, std::min(n, kMostRows), {}, {}};
  std::uint64_t state = 1;
  const auto next = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 33) / 2147483648.0 - 0.5;
  };
  for (std::int64_t i = 0; i < p.rows * n; ++i)
    p.w.push_back(static_cast<float>(0.04 * (next() + next() + next())));
  std::vector<double> loud;
  for (std::int64_t i = 0; i < n; ++i) loud.push_back(1.0 + 3.0 * std::abs(next()));
  p.h.resize(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double near = 1.0 / (1.0 + 0.3 * static_cast<double>(std::abs(i - j)));
      p.h[static_cast<std::size_t>(i * n + j)] =
          loud[static_cast<std::size_t>(i)] * loud[static_cast<std::size_t>(j)] * near;
    }
  }
  return cache.emplace(n, std::move(p)).first->second;
}

double openblas_fold(const Problem& p) {
  std::vector<double> a = p.h;
  const int n = static_cast<int>(p.n);
  for (std::int64_t i = 0; i < p.n; ++i) a[static_cast<std::size_t>(i * p.n + i)] *= 1.01;
  int info = 0;
  return seconds([&] {
    dpotrf_("L", &n, a.data(), &n, &info);
    dtrtri_("L", "N", &n, a.data(), &n, &info);
  });
}

double openblas_sweep_flops(const Problem& p) {
  const int n = static_cast<int>(p.n);
  const int rows = static_cast<int>(p.rows);
  std::vector<double> a(static_cast<std::size_t>(p.rows * p.n / 2), 1.0);
  std::vector<double> c(static_cast<std::size_t>(p.rows * p.n));
  return seconds([&] {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, n, n / 2, 1.0, a.data(), n / 2,
                p.h.data(), n, 0.0, c.data(), n);
  });
}

void fold(benchmark::State& state) {
  const Problem& p = problem(state.range(0));
  Pool pool(bench_threads());
  openblas_set_num_threads(bench_threads());
  double ours = 0;
  double theirs = 0;
  // The first fold of a size pays for memory that the machine has not handed out before.
  const auto once = [&] {
    benchmark::DoNotOptimize(gptq::fold_host(p.hessian(), {.order = gptq::Order::kNatural}, pool));
  };
  once();
  (void)openblas_fold(p);
  for (auto _ : state) {
    // Idle OpenBLAS workers spin for a while after a call and would take a core from ours.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ours += seconds(once);
    state.PauseTiming();
    theirs += openblas_fold(p);
    state.ResumeTiming();
  }
  const double flops =
      2.0 / 3.0 * static_cast<double>(p.n) * static_cast<double>(p.n) * static_cast<double>(p.n);
  state.counters["gflops"] = flops * static_cast<double>(state.iterations()) / ours * 1e-9;
  state.counters["ratio"] = theirs / ours;
}

void run_sweep(benchmark::State& state, const gptq::SweepOptions& options) {
  const Problem& p = problem(state.range(0));
  Pool pool(bench_threads());
  openblas_set_num_threads(bench_threads());
  const auto backend = gptq::make_host_backend(pool);
  const auto factor = backend->fold(p.hessian(), {.order = options.order});
  double ours = 0;
  double theirs = 0;
  for (auto _ : state) {
    gptq::SweepTimes times;
    (void)gptq::sweep_host(p.weights(), p.hessian(), static_cast<const gptq::HostFactor&>(*factor),
                           options, pool, &times);
    ours += times.sweep_seconds;
    state.counters["ladders_s"] = times.ladder_seconds;
    state.counters["measure_s"] = times.measure_seconds;
    state.PauseTiming();
    theirs += openblas_sweep_flops(p);
    state.ResumeTiming();
  }
  const double weights = static_cast<double>(p.rows * p.n);
  state.counters["gflops"] =
      weights * static_cast<double>(p.n) * static_cast<double>(state.iterations()) / ours * 1e-9;
  state.counters["ratio"] = theirs / ours;
  state.counters["ns_per_weight"] = ours / static_cast<double>(state.iterations()) / weights * 1e9;
}

void sweep_q4tp(benchmark::State& state) {
  run_sweep(state, {.target = gptq::Target::kQ4tp,
                    .order = gptq::Order::kNatural,
                    .rung = gptq::Rung::kDiag,
                    .ladder = gptq::LadderFit::kConverter});
}
void sweep_q2tp_placed(benchmark::State& state) {
  run_sweep(state, {.target = gptq::Target::kQ2tp,
                    .order = gptq::Order::kNatural,
                    .rung = gptq::Rung::kDiag,
                    .ladder = gptq::LadderFit::kConverter});
}
void sweep_default(benchmark::State& state) { run_sweep(state, {.target = gptq::Target::kQ4tp}); }

BENCHMARK(fold)->Arg(1024)->Arg(2048)->Arg(4096)->Unit(benchmark::kMillisecond)->Iterations(2);
BENCHMARK(sweep_q4tp)
    ->Arg(1024)
    ->Arg(2048)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(sweep_q2tp_placed)->Arg(1024)->Arg(2048)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(sweep_default)->Arg(1024)->Arg(2048)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
