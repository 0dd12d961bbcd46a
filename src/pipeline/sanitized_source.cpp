#include "sanitized_source.hpp"

namespace cortiq::pipeline {
namespace {

/// Sets elements whose exponent bits are all ones (NaN, infinity) to zero; returns whether there
/// were any.
template <typename T>
bool zero_non_finite(std::vector<std::byte>& bytes, T exponent) {
  bool any = false;
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    if ((load_le<T>(bytes.data() + i) & exponent) != exponent) continue;
    store_le(bytes.data() + i, T{0});
    any = true;
  }
  return any;
}

bool clean(std::vector<std::byte>& bytes, cmf::DType dtype) {
  switch (dtype) {
    case cmf::DType::kF16:
      return zero_non_finite<std::uint16_t>(bytes, 0x7C00);
    case cmf::DType::kBf16:
      return zero_non_finite<std::uint16_t>(bytes, 0x7F80);
    case cmf::DType::kF32:
      return zero_non_finite<std::uint32_t>(bytes, 0x7F800000U);
    default:
      return false;
  }
}

}  // namespace

cmf::Payload SanitizedSource::payload(std::size_t index) const {
  cmf::Payload payload = source_.payload(index);
  const cmf::DType dtype = source_.tensors()[index].dtype;
  if (!cmf::is_float(dtype)) return payload;
  std::vector<std::byte> copy(payload.bytes().begin(), payload.bytes().end());
  return clean(copy, dtype) ? cmf::Payload(std::move(copy)) : payload;
}

}  // namespace cortiq::pipeline
