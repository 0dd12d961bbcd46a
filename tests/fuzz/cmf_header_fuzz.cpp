// Whatever the bytes: parsing a header ends in an Error or in a header that survives its own text.
#include <cstdint>
#include <string>
#include <string_view>

#include "cortiq/cmf/features.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/support/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cortiq::cmf::Header;
  try {
    const Header header = Header::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string text = header.dump();
    (void)cortiq::cmf::derive_features(header, {}, true);
    CORTIQ_ASSERT(Header::parse(text, "fuzz").dump() == text);
  } catch (const cortiq::Error&) {
  }
  return 0;
}
