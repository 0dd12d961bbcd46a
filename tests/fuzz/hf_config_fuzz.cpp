// Any text as config.json (and as the tokenizer's configurations): mapped or refused with Error; a
// mapped header can be written as text.
#include <cstddef>
#include <cstdint>

#include "cortiq/hf/config.hpp"
#include "cortiq/support/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto config = cortiq::hf::parse_object(text, "fuzz");
    static_cast<void>(cortiq::hf::tokenizer_from_config(config, config, config, "", "fuzz").dump());
    static_cast<void>(cortiq::hf::arch_from_config(config, "fuzz").dump());
  } catch (const cortiq::Error&) {
  }
  return 0;
}
