#include "cortiq/codec/decode.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "cortiq/codec/codec.hpp"
#include "cortiq/codec/variants.hpp"
#include "cortiq/support/half.hpp"
#include "matrices.hpp"

namespace cortiq::codec {
namespace {

using cmf::DType;
using Shape = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

std::vector<float> decode_rows(const RowDecoder& decoder) {
  std::vector<float> out(static_cast<std::size_t>(decoder.rows() * decoder.cols()));
  decoder.decode(0, {out.data(), decoder.rows(), decoder.cols()});
  return out;
}

Bytes encoded(Codec codec, const test::TestMatrix& m) {
  Pool pool(1);
  return encode(codec, m.view(), {}, pool);
}

void expect_error(DType dtype, const Shape& shape, const Bytes& payload, ErrorKind kind) {
  try {
    const RowDecoder decoder(dtype, shape, payload);
    ADD_FAILURE() << cmf::dtype_name(dtype) << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
  }
}

TEST(RowDecoder, FloatTensorsHaveOneRowPerLeadingIndex) {
  std::vector<float> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 7.5F;
  const ByteSpan payload = std::as_bytes(std::span(values));
  const RowDecoder cube(DType::kF32, Shape{2, 3, 4}, payload);
  EXPECT_EQ(cube.rows(), 2);
  EXPECT_EQ(cube.cols(), 12);
  EXPECT_EQ(decode_rows(cube), values);
  const RowDecoder vector(DType::kF32, Shape{24}, payload);
  EXPECT_EQ(vector.rows(), 1);
  EXPECT_EQ(decode_rows(vector), values);
}

TEST(RowDecoder, AnyPartOfTheRowsEqualsThatPartOfTheWhole) {
  const test::TestMatrix m = test::make_matrix(7, 9, 96);
  for (const Codec codec : {Codec::kF16, Codec::kQ82f, Codec::kQ4tp, Codec::kQ2tp, Codec::kQ1s,
                            Codec::kQ1t, Codec::kVbit}) {
    const Bytes payload = encoded(codec, m);
    const RowDecoder decoder(dtype_of(codec), Shape{9, 96}, payload);
    const std::vector<float> whole = decode_rows(decoder);
    std::vector<float> part(3 * 100, -1.0F);
    decoder.decode(4, MatrixView<float>(part.data(), 3, 96, 100));
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(std::memcmp(part.data() + r * 100, whole.data() + (r + 4) * 96, 96 * sizeof(float)),
                0)
          << codec_name(codec);
      EXPECT_EQ(part[r * 100 + 96], -1.0F);
    }
  }
}

TEST(RowDecoder, AllHalvesKeepTheirBitsAtEveryInstructionSet) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const RowDecoder decoder(DType::kF16, Shape{1, 65536}, std::as_bytes(std::span(halves)));
  std::vector<float> out(65536);
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    Pool pool(1, level);
    decoder.decode_all({out.data(), 1, 65536}, pool);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]),
                std::bit_cast<std::uint32_t>(f16_to_f32(halves[i])))
          << i;
    }
  }
}

TEST(RowDecoder, LargeSignGroupsDecodeByTheirDefinition) {
  Bytes payload(256 / 8 + 2 * 2);
  payload[0] = std::byte{0b00000101};
  payload[16] = std::byte{0b10000000};
  store_le(payload.data() + 32, f32_to_f16(2.0F));
  store_le(payload.data() + 34, f32_to_f16(0.5F));
  const std::vector<float> out = decode_rows(RowDecoder(DType::kQ1g, Shape{1, 256}, payload));
  for (std::size_t i = 0; i < 256; ++i) {
    const bool plus = i == 0 || i == 2 || i == 135;
    EXPECT_EQ(out[i], (plus ? 1.0F : -1.0F) * (i < 128 ? 2.0F : 0.5F)) << i;
  }
}

TEST(RowDecoder, Mxfp4ScalesReachBothEnds) {
  Bytes payload(16 + 1);
  payload[0] = std::byte{0x87};  // 6, then -0
  std::vector<float> out = decode_rows(RowDecoder(DType::kMxfp4, Shape{1, 32}, payload));
  EXPECT_EQ(out[0], 6.0F * 0x1p-127F);
  EXPECT_TRUE(std::signbit(out[1]));
  payload[16] = std::byte{255};
  out = decode_rows(RowDecoder(DType::kMxfp4, Shape{1, 32}, payload));
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST(RowDecoder, RefusesTypesWithoutDecoder) {
  for (const DType dtype :
       {DType::kMix84, DType::kU8, DType::kQ4Col, DType::kU32, DType::kU64, DType::kBlr}) {
    expect_error(dtype, {1, 32}, Bytes(128), ErrorKind::kUnsupported);
  }
}

TEST(RowDecoder, RefusesPayloadsOfTheWrongSize) {
  const test::TestMatrix m = test::make_matrix(3, 5, 64);
  for (int id = 0; id <= static_cast<int>(Codec::kMxfp4); ++id) {
    const auto codec = static_cast<Codec>(id);
    Bytes payload = encoded(codec, m);
    payload.pop_back();
    expect_error(dtype_of(codec), {5, 64}, payload, ErrorKind::kInput);
    payload.resize(payload.size() + 2);
    expect_error(dtype_of(codec), {5, 64}, payload, ErrorKind::kInput);
    expect_error(dtype_of(codec), {5, 64}, {}, ErrorKind::kInput);
  }
}

TEST(RowDecoder, RefusesShapesThatTheTypeDoesNotAllow) {
  for (const DType dtype : {DType::kQ4tp, DType::kQ2tp, DType::kMxfp4, DType::kQ1g, DType::kQ1t,
                            DType::kVbit, DType::kVbitRo, DType::kQ1s}) {
    expect_error(dtype, {64}, Bytes(64), ErrorKind::kInput);
    expect_error(dtype, {2, 33}, Bytes(64), ErrorKind::kInput);
  }
  expect_error(DType::kF32, {-1, 4}, Bytes(16), ErrorKind::kInput);
  expect_error(DType::kF32, {std::int64_t{1} << 40, std::int64_t{1} << 40}, Bytes(16),
               ErrorKind::kInput);
}

TEST(RowDecoder, RefusesDamagedOutlierLists) {
  const test::TestMatrix m = test::make_matrix(1, 8, 64);
  const Bytes good = encoded(Codec::kQ1s, m);
  const std::size_t list = 8 * 2 * 6;
  ASSERT_GT(load_le<std::uint32_t>(good.data() + list), 1U);
  Bytes bad = good;
  store_le(bad.data() + list, std::uint32_t{0xFFFFFFFF});
  expect_error(DType::kQ1s, {8, 64}, bad, ErrorKind::kInput);
  bad = good;
  store_le(bad.data() + list + 4, std::uint32_t{8 * 64});
  expect_error(DType::kQ1s, {8, 64}, bad, ErrorKind::kInput);
  bad = good;
  store_le(bad.data() + list + 10, load_le<std::uint32_t>(good.data() + list + 4));
  expect_error(DType::kQ1s, {8, 64}, bad, ErrorKind::kInput);
}

TEST(RowDecoder, OverlayOfTernaryRowsReplacesAndIsChecked) {
  const test::TestMatrix m = test::make_matrix(0, 2, 32);
  Bytes payload = encoded(Codec::kQ1t, m);
  const std::size_t table = 2 * 9;
  payload.resize(payload.size() + 4);
  store_le(payload.data() + table + 8, std::uint32_t{1});
  store_le(payload.data() + table + 12, std::uint16_t{5});
  store_le(payload.data() + table + 14, f32_to_f16(3.5F));
  EXPECT_EQ(decode_rows(RowDecoder(DType::kQ1t, Shape{2, 32}, payload))[37], 3.5F);
  Bytes bad = payload;
  store_le(bad.data() + table + 12, std::uint16_t{32});
  expect_error(DType::kQ1t, {2, 32}, bad, ErrorKind::kInput);
  bad = payload;
  store_le(bad.data() + table + 4, std::uint32_t{2});
  expect_error(DType::kQ1t, {2, 32}, bad, ErrorKind::kInput);
  bad = payload;
  store_le(bad.data() + table, std::uint32_t{1});
  expect_error(DType::kQ1t, {2, 32}, bad, ErrorKind::kInput);
}

TEST(RowDecoder, RefusesDamagedWidthsAndOffsets) {
  const test::TestMatrix m = test::make_matrix(3, 6, 64);
  const Bytes good = encoded(Codec::kVbit, m);
  Bytes bad = good;
  bad[2] = std::byte{7};
  expect_error(DType::kVbitRo, {6, 64}, bad, ErrorKind::kInput);
  bad = good;
  bad[6 + 2 * 6 * 2 + 4] ^= std::byte{1};
  expect_error(DType::kVbitRo, {6, 64}, bad, ErrorKind::kInput);
}

TEST(RowDecoder, BothFormsOfVbitDecodeAlike) {
  const test::TestMatrix m = test::make_matrix(3, 6, 64);
  Pool pool(1);
  const Bytes legacy = encode_vbit_legacy(m.view(), 4.25F, pool);
  EXPECT_EQ(decode_rows(RowDecoder(DType::kVbit, Shape{6, 64}, legacy)),
            decode_rows(RowDecoder(DType::kVbitRo, Shape{6, 64}, encoded(Codec::kVbit, m))));
}

}  // namespace
}  // namespace cortiq::codec
