// Capture (rows/s, GFLOP/s counted as rows*n^2) against OpenBLAS ssyrk of the same panels in the
// same run, and the Hessian cache: writing and reading in GB/s against plain file writes and reads
// of as many bytes.
//   calib_bench [FOLDER for the cache files, default the temporary folder]     (unset
//   OPENBLAS_CORETYPE before)
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"

extern "C" {
void cblas_ssyrk(int order, int uplo, int trans, int n, int k, float alpha, const float* a, int lda,
                 float beta, float* c, int ldc);
void openblas_set_num_threads(int threads);
}

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;
using namespace cortiq;  // NOLINT: a program, not a header

/// Fastest of `repeats` runs, in seconds.
double best_seconds(int repeats, const std::function<void()>& fn) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point start = Clock::now();
    fn();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void bench_capture(std::int64_t n, int threads) {
  constexpr std::int64_t kRows = 2048;
  Pool pool(threads);
  openblas_set_num_threads(threads);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(kRows * n));
  for (float& value : x) value = normal(generator);
  model::InputGroup group;
  group.width = n;
  calib::Capture capture({group}, pool);
  const auto observe = [&] { capture.observe({0, model::Role::kIn, -1, {x.data(), kRows, n}}); };
  observe();  // first touch of H
  const double ours = best_seconds(3, observe);
  std::vector<float> c(static_cast<std::size_t>(n * n));
  const int width = static_cast<int>(n);
  const double theirs = best_seconds(4, [&] {
    cblas_ssyrk(101, 121, 112, width, static_cast<int>(kRows), 1, x.data(), width, 1, c.data(),
                width);
  });
  const double flops =
      static_cast<double>(kRows) * static_cast<double>(n) * static_cast<double>(n + 1);
  fmt::print(
      "capture n={} threads={}: {:.0f} rows/s, {:.1f} GFLOP/s; ssyrk {:.1f} GFLOP/s; ratio "
      "{:.2f}\n",
      n, threads, static_cast<double>(kRows) / ours, flops / ours * 1e-9, flops / theirs * 1e-9,
      theirs / ours);
}

void bench_cache(const fs::path& folder, std::int64_t n) {
  calib::Hessian hessian(n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i; j < n; ++j) hessian.view()(i, j) = i == j ? 2.0 : 0.5;
  }
  hessian.count = n;
  const fs::path path = folder / "calib_bench.hess";
  const auto gigabytes = [&] { return static_cast<double>(fs::file_size(path)) * 1e-9; };
  const double write = best_seconds(2, [&] {
    calib::HessianCacheWriter writer(path, 1);
    writer.add({"x"}, hessian);
    writer.commit({});
  });
  const calib::HessianCache cache = calib::HessianCache::open(path);
  std::vector<std::string> warnings;
  const double read = best_seconds(2, [&] { (void)cache.read(0, &warnings); });
  const double bytes = gigabytes();
  const double plain_write = best_seconds(2, [&] {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const std::vector<char> piece(std::size_t{4} << 20, 'x');
    for (double done = 0; done < bytes * 1e9; done += static_cast<double>(piece.size())) {
      if (::write(file, piece.data(), piece.size()) < 0) std::perror("write");
    }
    ::fsync(file);
    ::close(file);
  });
  fmt::print(
      "cache n={}: {:.2f} GB; write {:.2f} GB/s (plain write + fsync {:.2f}); read + checks {:.2f} "
      "GB/s\n",
      n, bytes, bytes / write, bytes / plain_write, bytes / read);
  fs::remove(path);
  fs::remove(calib::sidecar_path(path));
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path folder = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path();
  for (const int threads : {1, 2}) {
    for (const std::int64_t n : {576, 1536, 4096}) bench_capture(n, threads);
  }
  bench_cache(folder, 6144);
  return 0;
}
