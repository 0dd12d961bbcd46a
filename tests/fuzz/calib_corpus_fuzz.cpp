// Any bytes as a calibration file (the first byte picks the kind) and as a source specification.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/support/error.hpp"

namespace {

void read_all(const std::filesystem::path& path, std::uint64_t budget) {
  const cortiq::calib::Text text = cortiq::calib::read_text(path, budget);
  // What comes out is UTF-8: reading it again repairs nothing.
  if (cortiq::calib::cut_text(text.text, text.text.size()).invalid.count != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr const char* kSuffixes[] = {".txt", ".jsonl", ".json"};
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("cortiq-fuzz-" + std::to_string(::getpid()) + kSuffixes[data[0] % 3]);
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::ofstream(path, std::ios::binary) << text;
  try {
    read_all(path, data[1]);
    read_all(path, 1 << 20);
  } catch (const cortiq::Error&) {
    // refused: fine
  }
  try {
    (void)cortiq::calib::parse_source_spec(text);
  } catch (const cortiq::Error&) {
    return 0;
  }
  return 0;
}
