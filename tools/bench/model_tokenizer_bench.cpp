// model_tokenizer_bench.cpp: encode speed in MB/s of text on one thread, for every tokenizer below
// CORTIQ_ZOO_DIR (default ../shared/zoo) and for every further tokenizer.json named in
// CORTIQ_BENCH_TOKENIZERS (colon-separated). The counter goal_ratio is the speed over the 2 MB/s
// that calibration needs (calibration.md section 2.3).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cortiq/model/tokenizer.hpp"
#include "cortiq/support/file.hpp"

namespace {

namespace fs = std::filesystem;

constexpr double kGoalBytesPerSecond = 2e6;

void encode(benchmark::State& state, const std::string& path, const std::string& text) {
  const std::string json = cortiq::read_text_file(path);
  const auto tokenizer = cortiq::model::Tokenizer::parse(std::as_bytes(std::span(json)), path);
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer.encode(text));
  }
  const double bytes = static_cast<double>(text.size()) * static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.counters["goal_ratio"] =
      benchmark::Counter(bytes / kGoalBytesPerSecond, benchmark::Counter::kIsRate);
}

std::vector<std::string> tokenizer_files(const fs::path& zoo) {
  std::vector<std::string> files;
  if (fs::is_directory(zoo / "tokenizers")) {
    for (const fs::directory_entry& entry : fs::directory_iterator(zoo / "tokenizers")) {
      if (fs::exists(entry.path() / "tokenizer.json")) {
        files.push_back((entry.path() / "tokenizer.json").string());
      }
    }
  }
  if (const char* more = std::getenv("CORTIQ_BENCH_TOKENIZERS")) {
    std::istringstream stream(more);
    for (std::string file; std::getline(stream, file, ':');) {
      files.push_back(file);
    }
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const char* zoo_variable = std::getenv("CORTIQ_ZOO_DIR");
  const fs::path zoo = zoo_variable != nullptr ? zoo_variable : "../shared/zoo";
  const std::string english =
      fs::exists(zoo / "text" / "calib.txt")
          ? cortiq::read_text_file(zoo / "text" / "calib.txt")
          : std::string("no text was found, so the same words come again and again.\n");
  std::string letters;  // one piece of a million letters without a split
  for (std::uint32_t i = 0, seed = 1; i < 1'000'000; ++i) {
    seed = seed * 1664525U + 1013904223U;
    letters.push_back(static_cast<char>('a' + (seed >> 24) % 26));
  }
  for (const std::string& file : tokenizer_files(zoo)) {
    const std::string name = fs::path(file).parent_path().filename().string();
    benchmark::RegisterBenchmark((name + "/english").c_str(), encode, file, english)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((name + "/letters").c_str(), encode, file, letters)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
