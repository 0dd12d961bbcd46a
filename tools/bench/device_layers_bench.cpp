// device_layers_bench.cpp: layers of a large model through the backend, synthetic Hessians, from H on the host to codes on
// the host: how much of the wall time the device computes. One JSON line per number of groups in flight.
//   device_layers_bench [device index] [layers] [groups in flight …]
// Widths of a 27B hybrid: inputs of 5120 (projections, gate and up), 6144 (output projection), 17408 (down).
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "cortiq/device/devices.hpp"
#include "device_bench.hpp"

namespace cortiq::device::bench {
namespace {

struct GroupShape {
  std::int64_t n;
  std::vector<std::int64_t> rows;
};

struct SilentLog final : Log {
  void write(LogLevel level, std::string_view text) override {
    if (level >= LogLevel::kWarning) std::fprintf(stderr, "# %.*s\n", static_cast<int>(text.size()), text.data());
  }
  void progress(std::string_view, std::int64_t, std::int64_t, std::string_view) override {}
};

std::vector<float> weights(std::int64_t count, Pool& pool) {
  std::vector<float> w(static_cast<std::size_t>(count));
  pool.for_ranges(count / 4096, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::mt19937 generator(static_cast<std::uint32_t>(b));
      std::normal_distribution<float> normal(0.0F, 0.02F);
      for (std::int64_t i = 0; i < 4096; ++i) w[static_cast<std::size_t>(b * 4096 + i)] = normal(generator);
    }
  });
  return w;
}

void run_case(const Choice& choice, Pool& pool, int layers, int in_flight) {
  const std::vector<GroupShape> layer = {
      {5120, {12288, 1024, 1024}}, {6144, {5120}}, {5120, {17408, 17408}}, {17408, {5120}}};
  const SyntheticHessian h5(5120, pool), h6(6144, pool), h17(17408, pool);
  const std::vector<float> w = weights(17408LL * 5120, pool);
  SilentLog log;
  BackendOptions backend_options;
  backend_options.in_flight = in_flight;
  const auto backend = make_device_backend(choice, backend_options, pool, log);
  const auto run = [&](int count) {
    std::atomic<std::size_t> next{0};
    const std::size_t total = layer.size() * static_cast<std::size_t>(count);
    pool.for_each(in_flight, [&](std::int64_t) {
      for (std::size_t i = next++; i < total; i = next++) {
        const GroupShape& group = layer[i % layer.size()];
        const SyntheticHessian& h = group.n == 5120 ? h5 : group.n == 6144 ? h6 : h17;
        gptq::SweepOptions options;
        options.polish = 2;
        gptq::FoldOptions fold_options;
        fold_options.keep_damped = true;
        const auto factor = backend->fold(h.view(), fold_options);
        std::vector<gptq::SweepJob> jobs;
        for (const std::int64_t rows : group.rows) jobs.push_back({"w", {w.data(), rows, group.n}, options});
        const auto results = backend->sweep_group(jobs, h.view(), *factor);
        if (results.size() != jobs.size()) std::abort();
      }
    });
  };
  run(1);  // compiles the kernels, fills the pools of memory
  const double before = backend->use().device_seconds;
  const Clock clock;
  run(layers);
  const double wall = clock.seconds();
  const BackendUse use = backend->use();
  std::printf(
      "{\"case\": \"layers\", \"layers\": %d, \"in_flight\": %d, \"wall_s\": %.3f, \"busy_s\": %.3f, \"busy_share\": %.3f, "
      "\"peak_gb\": %.1f, \"host_groups\": %lld}\n",
      layers, in_flight, wall, use.device_seconds - before, (use.device_seconds - before) / wall,
      static_cast<double>(use.peak_bytes) / 1e9, static_cast<long long>(use.host_groups));
  std::fflush(stdout);
}

}  // namespace
}  // namespace cortiq::device::bench

int main(int count, char** arguments) {
  using namespace cortiq::device;
  try {
    cortiq::Pool pool;
    const std::string index = count > 1 ? arguments[1] : "0";
    const Choice choice = choose_devices("vulkan:" + index);
    const int layers = count > 2 ? std::atoi(arguments[2]) : 8;
    for (int i = 3; i < std::max(count, 4); ++i)
      bench::run_case(choice, pool, layers, count > 3 ? std::atoi(arguments[i]) : 4);
  } catch (const cortiq::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
