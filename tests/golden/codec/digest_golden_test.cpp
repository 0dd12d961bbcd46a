// The digests of codecs.md section 12.1: payloads of the reference encoders for two generated
// matrices. Needs no files.
#include <gtest/gtest.h>

#include "cortiq/codec/codec.hpp"
#include "sha256.hpp"

namespace cortiq::codec {
namespace {

class Generator {
 public:
  std::vector<float> matrix(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t u = next();
      double sum = 0.0;
      for (int part = 0; part < 4; ++part) sum += static_cast<double>((u >> (16 * part)) & 0xFFFFU);
      double y = (sum / 65536.0 - 2.0) * 0.02;
      if (i % 97 == 0) y *= 50.0;
      if ((i / 32) % 13 == 5) y = 0.0;
      values[i] = static_cast<float>(y);
    }
    return values;
  }

 private:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

struct Row {
  const char* name;
  Codec codec;
  EncodeOptions options;
  const char* small;  ///< 7 x 224
  const char* large;  ///< 300 x 96
};

EncodeOptions v1(bool search) {
  EncodeOptions options;
  options.q2tp_v1 = true;
  options.rung_search = search;
  return options;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"input", Codec::kF32, {}, "792a134c8f9f9b40", "89434f6b8fa0bd55"},
      {"q8_row", Codec::kQ8Row, {}, "0e160adefd168388", "c2d88db382bc2d69"},
      {"q8_2f", Codec::kQ82f, {}, "e9813282d778e93d", "520d53cff5628259"},
      {"q4_block", Codec::kQ4Block, {}, "9dddcdc8ecdefe7a", "f5e69da7ee4ea0d3"},
      {"q4_tiled", Codec::kQ4Tiled, {}, "358cbcefe45c8b63", "5b948df04ba00541"},
      {"q4tp", Codec::kQ4tp, {}, "8fb50c03f2452b29", "5929b49403439250"},
      {"q2tp v2", Codec::kQ2tp, {}, "f083265dcda25ae1", "678b46a99e4d6559"},
      {"q2tp v1", Codec::kQ2tp, v1(true), "d408a5137ad32f15", "49f0f846566905a0"},
      {"q2tp v1, search off", Codec::kQ2tp, v1(false), "a611a60948015b37", "bcb76a06efc7bcc9"},
      {"q1", Codec::kQ1, {}, "8df2c0c4c6a3d083", "bec4038a9de75bca"},
      {"q1p", Codec::kQ1p, {}, "17f1229e9bfa179e", "e87b2a1f5fb25da5"},
      {"q1s", Codec::kQ1s, {}, "4b3430f90ce69648", "1c866cb30bbaf420"},
      {"q1t", Codec::kQ1t, {}, "e2046a0f09bf1ab9", "990e4c47d0293e66"},
      {"vbit_ro", Codec::kVbit, {}, "fcc2358b7b376ab0", "6a189caaf23a9e67"},
      {"mxfp4", Codec::kMxfp4, {}, "9531853d94ed828b", "4fe8316994f87b64"}};
  return rows;
}

TEST(EncodeDigests, EqualTheSpecification) {
  Generator generator;
  const std::vector<float> small = generator.matrix(7 * 224);
  const std::vector<float> large = generator.matrix(300 * 96);
  Pool pool(2);
  for (const Row& row : table()) {
    const auto a = encode(row.codec, {small.data(), 7, 224}, row.options, pool);
    EXPECT_EQ(test::sha256_hex(a).substr(0, 16), row.small) << row.name << " 7x224";
    const auto b = encode(row.codec, {large.data(), 300, 96}, row.options, pool);
    EXPECT_EQ(test::sha256_hex(b).substr(0, 16), row.large) << row.name << " 300x96";
  }
}

}  // namespace
}  // namespace cortiq::codec
