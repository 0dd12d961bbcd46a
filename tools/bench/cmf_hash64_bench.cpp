// hash64 over 64 MiB, one thread: must not be slower than the disk it checks.
#include <benchmark/benchmark.h>

#include <vector>

#include "cortiq/cmf/hash64.hpp"

namespace {

void hash64_64mib(benchmark::State& state) {
  std::vector<std::byte> bytes(std::size_t{64} << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  for (auto _ : state) benchmark::DoNotOptimize(cortiq::cmf::hash64(bytes));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(hash64_64mib)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
