#include "cortiq/codec/decode.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "row_source.hpp"

namespace cortiq::codec {

namespace {

using cmf::DType;

/// Rows of a task of decode_all: enough work to hide the cost of a task, small enough to share out
/// narrow matrices.
constexpr std::int64_t kValuesPerTask = 1 << 16;

std::int64_t checked_product(std::span<const std::int64_t> extents) {
  std::uint64_t product = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 0) fail(ErrorKind::kInput, "negative extent {} in the shape", extent);
    if (mul_overflows(product, static_cast<std::uint64_t>(extent), &product)) {
      fail(ErrorKind::kInput, "the number of elements overflows 64 bits");
    }
  }
  // Four bytes per decoded value must still be addressable.
  if (product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 8) {
    fail(ErrorKind::kInput, "{} elements are more than this program can address", product);
  }
  return static_cast<std::int64_t>(product);
}

Dims row_dims(DType dtype, std::span<const std::int64_t> shape) {
  const std::int64_t count = checked_product(shape);
  if (shape.size() == 2) return {shape[0], shape[1]};
  if (dtype == DType::kQ4Block) return {1, count};
  if (!cmf::is_float(dtype)) {
    fail(ErrorKind::kInput, "{} tensor of rank {}; only matrices are allowed",
         cmf::dtype_name(dtype), shape.size());
  }
  if (shape.size() < 2) return {1, count};
  return {shape[0], checked_product(shape.subspan(1))};
}

void check_size(DType dtype, std::span<const std::int64_t> shape, std::size_t actual) {
  if (!cmf::has_fixed_size(dtype)) return;
  const auto expected = cmf::fixed_payload_bytes(dtype, shape);
  if (!expected) {
    fail(ErrorKind::kInput, "the shape is not allowed for {}", cmf::dtype_name(dtype));
  }
  if (*expected != actual) {
    fail(ErrorKind::kInput, "payload of {} bytes, but {} of this shape has {}; the file is damaged",
         actual, cmf::dtype_name(dtype), *expected);
  }
}

RowSourcePtr make_source(DType dtype, Dims dims, ByteSpan payload, LadderKind ladder) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
      return make_plain_source(dtype, dims, payload);
    case DType::kQ8Row:
    case DType::kQ82f:
      return make_q8_source(dtype, dims, payload);
    case DType::kQ4Block:
    case DType::kQ4Tiled:
      return make_q4_source(dtype, dims, payload);
    case DType::kQ4tp:
    case DType::kQ2tp:
      return make_planes_source(dtype, dims, payload, ladder);
    case DType::kQ1:
    case DType::kQ1g:
      return make_q1_source(dtype, dims, payload);
    case DType::kQ1s:
      return make_q1s_source(dims, payload);
    case DType::kQ1t:
      return make_q1t_source(dims, payload);
    case DType::kVbit:
    case DType::kVbitRo:
      return make_vbit_source(dtype, dims, payload);
    case DType::kMxfp4:
      return make_mxfp4_source(dims, payload);
    case DType::kMix84:
    case DType::kU8:
    case DType::kQ4Col:
    case DType::kU32:
    case DType::kU64:
    case DType::kBlr:
      break;
  }
  fail(ErrorKind::kUnsupported, "{} (dtype {}) has no decoder; such tensors are only copied",
       cmf::dtype_name(dtype), static_cast<int>(dtype));
}

}  // namespace

struct RowDecoder::State {
  RowSourcePtr source;
  SimdLevel level = SimdLevel::kPortable;
};

RowDecoder::RowDecoder(cmf::DType dtype, std::span<const std::int64_t> shape, ByteSpan payload,
                       LadderKind ladder) {
  if (!cmf::has_decoder(dtype)) static_cast<void>(make_source(dtype, {}, payload, ladder));
  const Dims dims = row_dims(dtype, shape);
  check_size(dtype, shape, payload.size());
  state_ = std::make_unique<const State>(
      State{make_source(dtype, dims, payload, ladder), detect_simd()});
}

RowDecoder::~RowDecoder() = default;
RowDecoder::RowDecoder(RowDecoder&&) noexcept = default;

std::int64_t RowDecoder::rows() const noexcept { return state_->source->dims().rows; }
std::int64_t RowDecoder::cols() const noexcept { return state_->source->dims().cols; }

void RowDecoder::decode(std::int64_t first, MatrixView<float> out) const {
  CORTIQ_ASSERT(first >= 0 && out.rows() >= 0 && first <= rows() - out.rows() &&
                out.cols() == cols());
  for (std::int64_t r = 0; r < out.rows(); ++r) {
    state_->source->decode_row(first + r, out.row(r), state_->level);
  }
}

void RowDecoder::decode_all(MatrixView<float> out, Pool& pool) const {
  CORTIQ_ASSERT(out.rows() == rows() && out.cols() == cols());
  const std::int64_t grain =
      std::max<std::int64_t>(1, kValuesPerTask / std::max<std::int64_t>(1, cols()));
  pool.for_ranges(rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      state_->source->decode_row(r, out.row(r), pool.simd());
    }
  });
}

}  // namespace cortiq::codec
