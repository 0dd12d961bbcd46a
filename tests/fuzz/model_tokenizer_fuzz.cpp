// model_tokenizer_fuzz.cpp: a tokenizer.json, a zero byte, a text. Parsing must end in a tokenizer
// or an Error; a tokenizer must encode any bytes and decode its own ids.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cortiq/model/tokenizer.hpp"

namespace {

// Splitting may cost kStepsPerByte times the square of the text, which is no bug.
constexpr std::size_t kTextBytes = 512;

void run(std::string_view input) {
  const std::size_t zero = std::min(input.find('\0'), input.size());
  const std::string_view json = input.substr(0, zero);
  const std::string_view text =
      input.substr(std::min(zero + 1, input.size())).substr(0, kTextBytes);
  const auto tokenizer = cortiq::model::Tokenizer::parse(std::as_bytes(std::span(json)), "fuzz");
  static_cast<void>(tokenizer.decode(tokenizer.encode(text)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    run({reinterpret_cast<const char*>(data), size});
  } catch (const cortiq::Error&) {
  }
  return 0;
}
