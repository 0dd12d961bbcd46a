// Any payload under any type and shape: the decoder refuses it with Error or decodes every row
// within its buffers. Input: type id, rank (0..3), a 16-bit extent per dimension, payload.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cortiq/codec/decode.hpp"

namespace {

constexpr std::int64_t kMostValues = 1 << 20;

void decode(cortiq::cmf::DType dtype, const std::vector<std::int64_t>& shape,
            cortiq::ByteSpan payload) {
  using namespace cortiq;
  const codec::RowDecoder decoder(dtype, shape, payload);
  if (decoder.rows() == 0 || decoder.cols() == 0) return;
  if (decoder.rows() > kMostValues / decoder.cols()) return;
  // Exact size, so that the address sanitizer sees a write behind the end.
  std::vector<float> row(static_cast<std::size_t>(decoder.cols()));
  for (std::int64_t r = 0; r < decoder.rows(); ++r) {
    decoder.decode(r, {row.data(), 1, decoder.cols()});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cortiq;
  if (size < 2) return 0;
  const auto dtype = cmf::try_dtype(static_cast<std::uint8_t>(data[0] % 24));
  const std::size_t rank = data[1] % 4;
  if (!dtype || size < 2 + 2 * rank) return 0;
  std::vector<std::int64_t> shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(load_le<std::uint16_t>(data + 2 + 2 * d));
  // A copy of exact size, so that a read behind the end is seen.
  const auto* first = reinterpret_cast<const std::byte*>(data) + 2 + 2 * rank;
  const std::vector<std::byte> payload(first, first + (size - 2 - 2 * rank));
  try {
    decode(*dtype, shape, payload);
  } catch (const Error&) {
  }
  return 0;
}
