// linalg_bench: products, Gram sums and the fold against OpenBLAS, in one run.
//
// Each row times ours and OpenBLAS in turn, within every iteration, on the same threads, so that
// the frequency and the neighbours of the machine hit both alike. Counters: ours and openblas in
// GFLOP/s, ratio = ours / openblas (best times of all iterations; ratio_mean from the means).
// Arguments end with the number of threads. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first:
// they slow OpenBLAS down. Its core name is printed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "cortiq/linalg/cholesky.hpp"
#include "cortiq/linalg/gemm.hpp"
#include "cortiq/linalg/gram.hpp"
#include "cortiq/support/page_buffer.hpp"

extern "C" {
void openblas_set_num_threads(int threads);
char* openblas_get_corename();
char* openblas_get_config();
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a,
                 int lda, const float* b, int ldb, float beta, float* c, int ldc);
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double* a,
                 int lda, const double* b, int ldb, double beta, double* c, int ldc);
void cblas_ssyrk(int order, int uplo, int trans, int n, int k, float alpha, const float* a, int lda,
                 float beta, float* c, int ldc);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dtrtri_(const char* uplo, const char* diag, const int* n, double* a, const int* lda,
             int* info);
}

namespace {

using cortiq::ConstMatrixView;
using cortiq::MatrixView;
using cortiq::Pool;
using cortiq::linalg::Trans;

constexpr int kRowMajor = 101;
constexpr int kUpper = 121;

/// Memory as the program keeps its matrices; both sides compute in the same.
template <typename T>
cortiq::PageBuffer<T> random_values(std::int64_t count) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  auto values = cortiq::make_page_buffer<T>(count, cortiq::PageSize::kHuge);
  std::for_each(values.get(), values.get() + count,
                [&](T& value) { value = static_cast<T>(uniform(engine)); });
  return values;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Interleaves both; prepare runs untimed before each.
void compare(benchmark::State& state, double flops, const std::function<void()>& prepare,
             const std::function<void()>& ours, const std::function<void()>& theirs) {
  double best_ours = 1e30;
  double best_theirs = 1e30;
  double sum_ours = 0.0;
  double sum_theirs = 0.0;
  prepare();
  ours();  // touches the memory
  prepare();
  const bool brief = seconds_of(theirs) < 0.02;
  for (auto _ : state) {
    // Idle OpenBLAS workers spin for a while after a call and would take a core from ours.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // A forward pass makes brief calls one after the other: time the second, with workers awake.
    prepare();
    if (brief) ours();
    if (brief) prepare();
    const double mine = seconds_of(ours);
    prepare();
    if (brief) theirs();
    if (brief) prepare();
    const double reference = seconds_of(theirs);
    best_ours = std::min(best_ours, mine);
    best_theirs = std::min(best_theirs, reference);
    sum_ours += mine;
    sum_theirs += reference;
    state.SetIterationTime(mine);
  }
  state.counters["ours"] = flops / best_ours * 1e-9;
  state.counters["openblas"] = flops / best_theirs * 1e-9;
  state.counters["ratio"] = best_theirs / best_ours;
  state.counters["ratio_mean"] = sum_theirs / sum_ours;
}

void product(Trans tb, float alpha, ConstMatrixView<float> a, ConstMatrixView<float> b,
             MatrixView<float> c, Pool& pool) {
  cortiq::linalg::gemm_f32(Trans::kNo, tb, alpha, a, b, 1.0F, c, pool);
}
void product(Trans tb, double alpha, ConstMatrixView<double> a, ConstMatrixView<double> b,
             MatrixView<double> c, Pool& pool) {
  cortiq::linalg::gemm_f64(Trans::kNo, tb, alpha, a, b, 1.0, c, pool);
}
void blas(int tb, int m, int n, int k, float alpha, const float* a, const float* b, int ldb,
          float* c) {
  cblas_sgemm(kRowMajor, 111, tb, m, n, k, alpha, a, k, b, ldb, 1.0F, c, n);
}
void blas(int tb, int m, int n, int k, double alpha, const double* a, const double* b, int ldb,
          double* c) {
  cblas_dgemm(kRowMajor, 111, tb, m, n, k, alpha, a, k, b, ldb, 1.0, c, n);
}

/// C += alpha * A * op(B) with arguments m, n, k, op(B) = B^T?, threads.
template <typename T>
void gemm(benchmark::State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const bool flip = state.range(3) != 0;
  const int threads = static_cast<int>(state.range(4));
  const auto a = random_values<T>(m * k);
  const auto b = random_values<T>(k * n);
  const auto c = random_values<T>(m * n);
  Pool pool(threads);
  openblas_set_num_threads(threads);
  const ConstMatrixView<T> A(a.get(), m, k);
  const ConstMatrixView<T> B =
      flip ? ConstMatrixView<T>(b.get(), n, k) : ConstMatrixView<T>(b.get(), k, n);
  const MatrixView<T> C(c.get(), m, n);
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  compare(
      state, flops, [] {}, [&] { product(flip ? Trans::kYes : Trans::kNo, T(-1), A, B, C, pool); },
      [&] {
        blas(flip ? 112 : 111, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), T(-1),
             a.get(), b.get(), static_cast<int>(flip ? k : n), c.get());
      });
}

/// H += X^T X, arguments tokens, n, threads; ssyrk in blocks of the same number of tokens, f32 H.
void gram(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const std::int64_t n = state.range(1);
  const int threads = static_cast<int>(state.range(2));
  const auto x = random_values<float>(tokens * n);
  const auto h = cortiq::make_page_buffer<double>(n * n, cortiq::PageSize::kHuge);
  const auto s = cortiq::make_page_buffer<float>(n * n, cortiq::PageSize::kHuge);
  Pool pool(threads);
  openblas_set_num_threads(threads);
  const double flops =
      static_cast<double>(tokens) * static_cast<double>(n) * static_cast<double>(n);
  compare(
      state, flops, [] {},
      [&] {
        cortiq::linalg::gram_accumulate(ConstMatrixView<float>(x.get(), tokens, n),
                                        MatrixView<double>(h.get(), n, n), pool);
      },
      [&] {
        cblas_ssyrk(kRowMajor, kUpper, 112, static_cast<int>(n), static_cast<int>(tokens), 1.0F,
                    x.get(), static_cast<int>(n), 1.0F, s.get(), static_cast<int>(n));
      });
}

enum class Part { kFold, kCholesky, kInverse };

/// Cholesky and triangular inverse, arguments n, threads; 2/3 n^3 flops for both.
void fold(benchmark::State& state, Part part) {
  const std::int64_t n = state.range(0);
  const int threads = static_cast<int>(state.range(1));
  const int order = static_cast<int>(n);
  auto start = random_values<double>(n * n);
  for (std::int64_t i = 0; i < n; ++i)
    start[static_cast<std::size_t>(i * n + i)] = 2.0 * static_cast<double>(n);
  const auto a = cortiq::make_page_buffer<double>(n * n, cortiq::PageSize::kHuge);
  Pool pool(threads);
  openblas_set_num_threads(threads);
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  compare(
      state, cube * (part == Part::kFold ? 2.0 : 1.0) / 3.0,
      [&] { std::copy(start.get(), start.get() + n * n, a.get()); },
      [&] {
        const MatrixView<double> A(a.get(), n, n);
        if (part != Part::kInverse && cortiq::linalg::cholesky_in_place(A, pool)) std::abort();
        if (part != Part::kCholesky) cortiq::linalg::invert_lower_in_place(A, pool);
      },
      [&] {
        int info = 0;  // upper by columns is lower by rows: the same elements
        if (part != Part::kInverse) dpotrf_("U", &order, a.get(), &order, &info);
        if (part != Part::kCholesky) dtrtri_("U", "N", &order, a.get(), &order, &info);
        if (info != 0) std::abort();
      });
}

void gemm_f64_shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t n : {1024, 2048}) b->Args({n, n, n, 0, threads});
    for (const std::int64_t k : {32, 64, 128, 256}) b->Args({2048, 2048, k, 0, threads});
    for (const std::int64_t m : {256, 4096}) b->Args({m, 4096, 128, 0, threads});
    b->Args({1536, 96, 32, 0, threads});
    b->Args({1536, 64, 32, 0, threads});
    b->Args({576, 96, 32, 0, threads});
  }
}

void gemm_f32_shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t n : {1024, 2048}) b->Args({n, n, n, 1, threads});
    b->Args({2048, 1536, 576, 1, threads});
    b->Args({2048, 576, 1536, 1, threads});
    b->Args({2048, 576, 576, 1, threads});
    b->Args({2048, 192, 576, 1, threads});
    b->Args({512, 1536, 576, 1, threads});
    b->Args({512, 512, 64, 1, threads});
    b->Args({512, 64, 512, 0, threads});
  }
}

void gram_shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t n : {576, 1536, 4096}) b->Args({2048, n, threads});
  }
}

void fold_shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t n : {1024, 2048, 4096}) b->Args({n, threads});
  }
}

BENCHMARK(gemm<double>)->Apply(gemm_f64_shapes)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(gemm<float>)->Apply(gemm_f32_shapes)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(gram)->Apply(gram_shapes)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fold, both, Part::kFold)
    ->Apply(fold_shapes)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fold, cholesky, Part::kCholesky)
    ->Apply(fold_shapes)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fold, inverse, Part::kInverse)
    ->Apply(fold_shapes)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  std::printf("OpenBLAS: %s (%s); ours: %s\n", openblas_get_corename(), openblas_get_config(),
              cortiq::simd_name(cortiq::detect_simd()).data());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
