// dtype.hpp: tensor element types of a CMF file: ids, names and payload sizes (docs/spec: cmf.md section 4).
// Group size of all grouped types: 32 consecutive input channels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cortiq::cmf {

/// Values are the ids of the file format.
enum class DType : std::uint8_t {
  kF32 = 0, kF16 = 1, kBf16 = 2, kQ8Row = 3, kQ4Block = 4, kMix84 = 5, kU8 = 6, kQ4Col = 7,
  kVbit = 8, kQ82f = 9, kVbitRo = 10, kQ4Tiled = 11, kQ1 = 12, kQ1s = 13, kQ1t = 14, kQ4tp = 15,
  kQ2tp = 16, kU32 = 17, kU64 = 18, kBlr = 19, kQ1g = 20, kMxfp4 = 21,
};

/// Lower-case name of the format ("f16", "q8_row", "q4tp"…).
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;
/// nullopt for an id that the format does not define.
[[nodiscard]] std::optional<DType> try_dtype(std::uint8_t id) noexcept;
/// f32, f16 or bf16.
[[nodiscard]] bool is_float(DType dtype) noexcept;
/// False for the reserved and raw types 5, 6, 7, 17, 18 and for blr (19), which are only copied.
[[nodiscard]] bool has_decoder(DType dtype) noexcept;
/// Exact payload size where type and shape determine it; nullopt for a size that depends on the data (vbit, vbit_ro,
/// q1s, q1t, blr, reserved types), for a shape that the type does not allow, and on overflow.
[[nodiscard]] std::optional<std::uint64_t> fixed_payload_bytes(DType dtype, std::span<const std::int64_t> shape) noexcept;
/// True if the size follows from type and shape alone.
[[nodiscard]] bool has_fixed_size(DType dtype) noexcept;

}  // namespace cortiq::cmf
