// Any bytes as a Hessian cache: opened and read, or refused with an Error.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/support/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                            ("cortiq-fuzz-" + std::to_string(::getpid()) + ".hess");
  static cortiq::Pool pool(1);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const cortiq::calib::HessianCache cache = cortiq::calib::HessianCache::open(path);
    for (std::size_t i = 0; i < cache.entries().size(); ++i) {
      (void)cortiq::calib::inspect_entry(cache, i, cortiq::calib::InspectDepth::kFull, pool);
    }
    (void)cache.identity();
  } catch (const cortiq::Error&) {
    return 0;
  }
  return 0;
}
