// device_bench.hpp: what the device benchmarks share: a synthetic Hessian and the loop over devices and paths.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cortiq/support/page_buffer.hpp"
#include "factor.hpp"

namespace cortiq::device::bench {

class Clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// H_ij = s_i s_j (0.9^|i-j| + sum of 8 smooth factors), sizes s spread over two decades: correlated and positive
/// definite, made in O(n^2).
class SyntheticHessian {
 public:
  SyntheticHessian(std::int64_t n, Pool& pool) : n_(n), values_(make_page_buffer<double>(n * n, PageSize::kHuge)) {
    constexpr int kFactors = 8;
    std::mt19937 generator(static_cast<std::uint32_t>(n));
    std::normal_distribution<double> normal;
    std::vector<double> size(static_cast<std::size_t>(n));
    std::vector<double> factor(static_cast<std::size_t>(n * kFactors));
    for (auto& s : size) s = std::exp(normal(generator));
    for (auto& f : factor) f = normal(generator);
    pool.for_ranges(n, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double decay = 1;
        for (std::int64_t j = i; j < n; ++j) {
          double value = decay;
          decay *= 0.9;
          for (int f = 0; f < kFactors; ++f)
            value += factor[at(i * kFactors + f)] * factor[at(j * kFactors + f)];
          values_[at(i * n + j)] = 1000.0 * value * size[at(i)] * size[at(j)];
        }
      }
    });
  }
  [[nodiscard]] ConstMatrixView<double> view() const { return {values_.get(), n_, n_}; }

  /// |U^T U H_d v - v| / |v| with the device's U, in f64.
  [[nodiscard]] double inverse_error(const Engine& engine, const DeviceFactor& factor) const {
    const std::vector<double> u = read_factor(engine, factor);
    std::mt19937 generator(7);
    std::normal_distribution<double> normal;
    std::vector<double> v(at(n_)), hv(at(n_), 0.0), uhv(at(n_), 0.0), back(at(n_), 0.0);
    for (auto& x : v) x = normal(generator);
    const auto& order = factor.scaling.elimination;
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) {
        const auto a = order[at(i)], b = order[at(j)];
        hv[at(i)] += values_[at(std::min(a, b) * n_ + std::max(a, b))] * v[at(j)];
      }
      hv[at(i)] += factor.scaling.damping * v[at(i)];
    }
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = i; j < n_; ++j) uhv[at(i)] += u[at(i * n_ + j)] * hv[at(j)];
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = i; j < n_; ++j) back[at(j)] += u[at(i * n_ + j)] * uhv[at(i)];
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      error += (back[at(i)] - v[at(i)]) * (back[at(i)] - v[at(i)]);
      norm += v[at(i)] * v[at(i)];
    }
    return std::sqrt(error / norm);
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t n_;
  PageBuffer<double> values_;
};

/// Arguments: [device index] [widths…]. Calls `run` for each path of the device and each width.
inline int run_on_device(int count, char** arguments, std::vector<std::int64_t> widths,
                         const std::function<void(const Engine&, Pool&, std::int64_t)>& run) {
  const int index = count > 1 ? std::atoi(arguments[1]) : 0;
  if (count > 2) widths.clear();
  for (int i = 2; i < count; ++i) widths.push_back(std::atoll(arguments[i]));
  try {
    const auto instance = vulkan::Instance::open();
    const auto adapters = instance->adapters();
    if (static_cast<std::size_t>(index) >= adapters.size()) {
      std::fprintf(stderr, "no device %d\n", index);
      return 1;
    }
    const auto context = vulkan::Context::open(instance, adapters[static_cast<std::size_t>(index)]);
    std::fprintf(stderr, "# %s, %s\n", context->adapter().name.c_str(), context->adapter().driver.c_str());
    Pool pool;
    for (const Path path : {Path::kCooperative, Path::kPlain}) {
      if (path == Path::kCooperative && !Engine::cooperative_possible(*context)) continue;
      const Engine engine(context, path);
      for (const std::int64_t n : widths) run(engine, pool, n);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace cortiq::device::bench
