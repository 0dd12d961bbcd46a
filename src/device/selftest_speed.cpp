// selftest_speed.cpp: fold and sweep in ms, device and host. A small problem is measured first; the size grows as far as
// both are expected to stay within seconds.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "cortiq/gptq/sweep.hpp"
#include "selftest_checks.hpp"
#include "stack.hpp"

namespace cortiq::device {

namespace {

constexpr double kSecondsAtMost = 0.75; // of one measurement, on either side
constexpr std::int64_t kFirstWidth = 256;
constexpr std::int64_t kLastWidth = 8192;

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// H_ij = 0.9^|i-j| plus two smooth factors: positive definite, made in n^2 steps.
std::vector<double> smooth_hessian(std::int64_t n, Pool& pool) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> h(size * size), decay(size), first(size), second(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto x = static_cast<double>(i);
    decay[i] = std::pow(0.9, x);
    first[i] = std::sin(0.3 * x);
    second[i] = std::cos(0.7 * x);
  }
  pool.for_ranges(n, 16, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      for (std::size_t j = 0; j < size; ++j)
        h[i * size + j] = decay[i < j ? j - i : i - j] + first[i] * first[j] + second[i] * second[j];
    }
  });
  return h;
}

std::vector<float> random_rows(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / 16777216.0F - 0.5F;
  }
  return values;
}

struct Measured {
  double device = 0, wall = 0, host = 0;
  [[nodiscard]] double slowest() const { return std::max(wall, host); }
};

class Speeds {
 public:
  explicit Speeds(const SelftestRun& run) : run_(run), stream_(run.engine.shared_context()) {}

  void measure() {
    std::int64_t n = kFirstWidth;
    Measured fold = time_fold(n);
    while (n < kLastWidth && 8 * fold.slowest() <= kSecondsAtMost) fold = time_fold(n *= 2);
    const double cube = std::pow(static_cast<double>(n), 3);
    add(fmt::format("fold, n {}", n), 2.0 / 3.0 * cube, fold);
    sweeps(std::min(n, kLastWidth / 2));
  }

 private:
  Measured time_fold(std::int64_t n) {
    n_ = n;
    h_ = smooth_hessian(n, run_.pool);
    const ConstMatrixView<double> h(h_.data(), n, n);
    const gptq::FoldOptions options;
    Measured measured{1e30, 1e30, 1e30};
    for (int round = 0; round < 2; ++round) {  // the first compiles kernels
      factor_.reset();
      FoldTimes times;
      const double wall = seconds_of([&] {
        FoldOutcome outcome = fold_on_device(run_.engine, stream_, run_.pool, h, options, &times);
        if (!outcome.factor) fail(ErrorKind::kDevice, "the fold was declined: {}", outcome.reason);
        factor_ = std::move(outcome.factor);
      });
      measured.wall = std::min(measured.wall, wall);
      measured.device = std::min(measured.device, times.device_seconds);
    }
    measured.host = seconds_of([&] { host_ = gptq::fold_host(h, options, run_.pool); });
    return measured;
  }

  /// Both at the width of the last fold, rows as many as time allows.
  void sweeps(std::int64_t rows_at_most) {
    gptq::SweepOptions plain;
    plain.rung = gptq::Rung::kDiag;
    plain.ladder = gptq::LadderFit::kConverter;
    const gptq::SweepOptions standard;
    for (const gptq::SweepOptions& options : {plain, standard}) {
      std::int64_t rows = 128;
      Measured sweep = time_sweep(rows, options);
      while (rows < rows_at_most && 2 * sweep.slowest() <= kSecondsAtMost) sweep = time_sweep(rows *= 2, options);
      const auto n = static_cast<double>(n_);
      add(fmt::format("sweep, {} x {}, {}", rows, n_, describe_options(options)), static_cast<double>(rows) * n * n, sweep);
    }
  }

  Measured time_sweep(std::int64_t rows, const gptq::SweepOptions& options) {
    const std::vector<float> weights = random_rows(rows * n_);
    const ConstMatrixView<float> one[1] = {{weights.data(), rows, n_}};
    Measured measured{1e30, 1e30, 1e30};
    for (int round = 0; round < 2; ++round) {
      const double before = stream_.busy_seconds();
      measured.wall = std::min(measured.wall, seconds_of([&] {
                                 (void)sweep_on_device(run_.engine, stream_, run_.pool, *factor_, one, options);
                                 stream_.finish();
                               }));
      measured.device = std::min(measured.device, stream_.busy_seconds() - before);
    }
    measured.host = seconds_of([&] {
      (void)gptq::sweep_host(one[0], {h_.data(), n_, n_}, *host_, options, run_.pool);
    });
    return measured;
  }

  void add(std::string work, double flops, const Measured& measured) const {
    run_.report.speeds.push_back(
        {run_.path(), std::move(work), flops, 1e3 * measured.device, 1e3 * measured.wall, 1e3 * measured.host});
  }

  const SelftestRun& run_;
  vulkan::Stream stream_;
  std::int64_t n_ = 0;
  std::vector<double> h_;
  std::unique_ptr<DeviceFactor> factor_;
  std::unique_ptr<gptq::HostFactor> host_;
};

}  // namespace

void measure_speeds(const SelftestRun& run) { Speeds(run).measure(); }

}  // namespace cortiq::device
