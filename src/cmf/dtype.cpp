#include "cortiq/cmf/dtype.hpp"

#include <array>

#include "cortiq/support/bytes.hpp"

namespace cortiq::cmf {
namespace {

/// How the payload size follows from the shape (cmf.md section 4).
enum class SizeRule {
  kNone,  ///< depends on the data, or the type is reserved
  kFlat,  ///< bytes_per_group for each `group` elements of the flattened tensor, last group padded
  kRowScale,   ///< one byte per element, one f16 per row
  kTwoScales,  ///< kRowScale and one f16 per column
  kLadder,  ///< bytes_per_group per group, two f16 and 5-bit rung codes per row; needs [R, C], C %
            ///< group == 0
  kGrid,    ///< bytes_per_group per group; needs [R, C], C % group == 0
};

struct Traits {
  std::string_view name;
  SizeRule rule;
  std::uint64_t group;
  std::uint64_t bytes_per_group;
  bool decoder;
};

constexpr std::array<Traits, 22> kTraits{{
    {"f32", SizeRule::kFlat, 1, 4, true},        {"f16", SizeRule::kFlat, 1, 2, true},
    {"bf16", SizeRule::kFlat, 1, 2, true},       {"q8_row", SizeRule::kRowScale, 1, 1, true},
    {"q4_block", SizeRule::kFlat, 32, 18, true}, {"mix8_4", SizeRule::kNone, 1, 0, false},
    {"u8", SizeRule::kFlat, 1, 1, false},        {"q4_col", SizeRule::kNone, 1, 0, false},
    {"vbit", SizeRule::kNone, 1, 0, true},       {"q8_2f", SizeRule::kTwoScales, 1, 1, true},
    {"vbit_ro", SizeRule::kNone, 1, 0, true},    {"q4_tiled", SizeRule::kFlat, 32, 18, true},
    {"q1", SizeRule::kFlat, 32, 6, true},        {"q1s", SizeRule::kNone, 1, 0, true},
    {"q1t", SizeRule::kNone, 1, 0, true},        {"q4tp", SizeRule::kLadder, 32, 16, true},
    {"q2tp", SizeRule::kLadder, 32, 8, true},    {"u32", SizeRule::kFlat, 1, 4, false},
    {"u64", SizeRule::kFlat, 1, 8, false},       {"blr", SizeRule::kNone, 1, 0, false},
    {"q1g", SizeRule::kGrid, 128, 18, true},     {"mxfp4", SizeRule::kGrid, 32, 17, true},
}};

const Traits& traits_of(DType dtype) noexcept { return kTraits[static_cast<std::size_t>(dtype)]; }

/// Sums and products of sizes that remember an overflow.
class Checked {
 public:
  explicit Checked(std::uint64_t value) : value_(value) {}
  Checked& times(std::uint64_t factor) {
    ok_ = !mul_overflows(value_, factor, &value_) && ok_;
    return *this;
  }
  Checked& plus(const Checked& other) {
    ok_ = !add_overflows(value_, other.value_, &value_) && ok_ && other.ok_;
    return *this;
  }
  [[nodiscard]] std::optional<std::uint64_t> value() const {
    return ok_ ? std::optional(value_) : std::nullopt;
  }

 private:
  std::uint64_t value_;
  bool ok_ = true;
};

std::optional<std::uint64_t> product(std::span<const std::int64_t> shape) {
  Checked n(1);
  bool empty = false;  // a zero extent makes the product 0 whatever the others are
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) empty = true;
    n.times(static_cast<std::uint64_t>(extent));
  }
  return empty ? std::optional<std::uint64_t>(0) : n.value();
}

}  // namespace

std::string_view dtype_name(DType dtype) noexcept { return traits_of(dtype).name; }

std::optional<DType> try_dtype(std::uint8_t id) noexcept {
  if (id >= kTraits.size()) return std::nullopt;
  return static_cast<DType>(id);
}

bool is_float(DType dtype) noexcept {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

bool has_decoder(DType dtype) noexcept { return traits_of(dtype).decoder; }

bool has_fixed_size(DType dtype) noexcept { return traits_of(dtype).rule != SizeRule::kNone; }

std::optional<std::uint64_t> fixed_payload_bytes(DType dtype,
                                                 std::span<const std::int64_t> shape) noexcept {
  const Traits& t = traits_of(dtype);
  const std::optional<std::uint64_t> n = product(shape);
  if (!n || t.rule == SizeRule::kNone) return std::nullopt;
  if (t.rule == SizeRule::kFlat) {
    return Checked(*n / t.group + (*n % t.group != 0 ? 1U : 0U)).times(t.bytes_per_group).value();
  }
  if (shape.empty()) return std::nullopt;
  const auto rows = static_cast<std::uint64_t>(shape[0]);
  if (t.rule == SizeRule::kRowScale) return Checked(*n).plus(Checked(rows).times(2)).value();
  if (t.rule == SizeRule::kTwoScales) {
    const std::optional<std::uint64_t> columns = product(shape.subspan(1));
    if (!columns) return std::nullopt;
    return Checked(*n).plus(Checked(rows).times(2)).plus(Checked(*columns).times(2)).value();
  }
  if (shape.size() != 2) return std::nullopt;
  const auto columns = static_cast<std::uint64_t>(shape[1]);
  if (columns % t.group != 0) return std::nullopt;
  const std::uint64_t groups = columns / t.group;
  Checked size = Checked(rows).times(groups).times(t.bytes_per_group);
  if (t.rule == SizeRule::kGrid) {
    if (columns == 0) return std::nullopt;
    return size.value();
  }
  const std::uint64_t code_bytes = (groups * 5 + 7) / 8;  // groups < 2^59: no overflow
  return size.plus(Checked(rows).times(4)).plus(Checked(rows).times(code_bytes)).value();
}

}  // namespace cortiq::cmf
