// Any bytes as a safetensors file: parsed or refused with Error, every reported span inside the
// file.
#include <cstddef>
#include <cstdint>

#include "cortiq/hf/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cortiq::ByteSpan file = std::as_bytes(std::span(data, size));
  try {
    for (const auto& entry : cortiq::hf::parse_safetensors(file, "fuzz")) {
      CORTIQ_ASSERT(entry.offset <= size && entry.nbytes <= size - entry.offset);
    }
  } catch (const cortiq::Error&) {
  }
  return 0;
}
