// Speed of every encoder and decoder on one thread, in bytes of f32 weights per second, and the
// ratio of each decoder to the memcpy of as many bytes measured in the same run.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include "cortiq/codec/codec.hpp"
#include "cortiq/codec/decode.hpp"
#include "cortiq/codec/ladder.hpp"

namespace {

using namespace cortiq;

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kCols = 4096;
constexpr double kMegabyte = 1e6;

const std::vector<float>& weights() {
  static const std::vector<float> values = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    std::vector<float> w(static_cast<std::size_t>(kRows * kCols));
    for (float& x : w) x = normal(random) * (random() % 997 == 0 ? 20.0F : 1.0F);
    return w;
  }();
  return values;
}

ConstMatrixView<float> matrix() { return {weights().data(), kRows, kCols}; }

double bytes_of_weights() { return static_cast<double>(weights().size() * sizeof(float)); }

/// Bytes per second of a memcpy of the weights, the best of a few.
double copy_rate() {
  static const double rate = [] {
    std::vector<float> target(weights().size());
    double best = 0.0;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      std::memcpy(target.data(), weights().data(), target.size() * sizeof(float));
      benchmark::DoNotOptimize(target.data());
      benchmark::ClobberMemory();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      best = std::max(best, bytes_of_weights() / time.count());
    }
    return best;
  }();
  return rate;
}

void report(benchmark::State& state) {
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<double>(state.iterations()) * bytes_of_weights()));
}

void encode_speed(benchmark::State& state, codec::Codec which, codec::EncodeOptions options,
                  SimdLevel level) {
  Pool pool(1, level);
  for (auto _ : state) benchmark::DoNotOptimize(codec::encode(which, matrix(), options, pool));
  report(state);
}

void decode_speed(benchmark::State& state, codec::Codec which) {
  Pool pool(1);
  const auto payload = codec::encode(which, matrix(), {}, pool);
  const std::vector<std::int64_t> shape = {kRows, kCols};
  const codec::RowDecoder decoder(codec::dtype_of(which), shape, payload);
  std::vector<float> out(weights().size());
  const double copy = copy_rate();
  for (auto _ : state) {
    decoder.decode_all({out.data(), kRows, kCols}, pool);
    benchmark::ClobberMemory();
  }
  report(state);
  const double total = static_cast<double>(state.iterations()) * bytes_of_weights();
  state.counters["to_memcpy"] = benchmark::Counter(total / copy, benchmark::Counter::kIsRate);
  state.counters["memcpy_MB/s"] = copy / kMegabyte;
}

/// The row functions as the sweeps use them, with weights of the error.
void place_speed(benchmark::State& state) {
  const std::vector<float> hw(static_cast<std::size_t>(kCols), 1.25F);
  std::vector<std::uint8_t> rungs(static_cast<std::size_t>(kCols / 32));
  std::int64_t r = 0;
  for (auto _ : state) {
    const std::span<const float> row(matrix().row(r++ % kRows), static_cast<std::size_t>(kCols));
    benchmark::DoNotOptimize(codec::q2tp_place_row(row, hw, rungs));
  }
  state.SetBytesProcessed(state.iterations() * kCols * 4);
}

void register_all() {
  using codec::Codec;
  for (int id = 0; id <= static_cast<int>(Codec::kMxfp4); ++id) {
    const auto which = static_cast<Codec>(id);
    const std::string name(codec::codec_name(which));
    benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode_speed, which,
                                 codec::EncodeOptions{}, detect_simd());
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode_speed, which);
  }
  codec::EncodeOptions v1;
  v1.q2tp_v1 = true;
  benchmark::RegisterBenchmark("encode/q2tp_v1", encode_speed, Codec::kQ2tp, v1, detect_simd());
  for (const Codec which : {Codec::kQ4tp, Codec::kQ2tp}) {
    const std::string name = "encode/" + std::string(codec::codec_name(which)) + "/portable";
    benchmark::RegisterBenchmark(name.c_str(), encode_speed, which, codec::EncodeOptions{},
                                 SimdLevel::kPortable);
  }
  benchmark::RegisterBenchmark("place_row/weighted", place_speed);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  register_all();
  benchmark::RunSpecifiedBenchmarks();
}
