// Every stored payload of the reference encoders, decoded: same f32 bits as the reference reader.
#include <gtest/gtest.h>

#include <map>

#include "cortiq/codec/decode.hpp"
#include "golden_case.hpp"

namespace cortiq::codec {
namespace {

using test::GoldenCase;

const std::map<std::string, cmf::DType>& dtypes() {
  using cmf::DType;
  static const std::map<std::string, DType> table = {
      {"f16", DType::kF16},          {"q8_row", DType::kQ8Row},
      {"q8_2f", DType::kQ82f},       {"q4_block", DType::kQ4Block},
      {"q4_tiled", DType::kQ4Tiled}, {"q4tp", DType::kQ4tp},
      {"q2tp", DType::kQ2tp},        {"q1", DType::kQ1},
      {"q1s", DType::kQ1s},          {"q1t", DType::kQ1t},
      {"mxfp4", DType::kMxfp4},      {"vbit", DType::kVbit},
      {"vbit_ro", DType::kVbitRo},   {"f32", DType::kF32}};
  return table;
}

std::vector<float> decode_case(const GoldenCase& golden, const std::string& file, SimdLevel level) {
  const auto shape = golden.info(file)["shape"].get<std::vector<std::int64_t>>();
  const std::vector<std::byte> payload = golden.bytes(file);
  const RowDecoder decoder(dtypes().at(golden.info(file)["dtype"]), shape, payload);
  std::vector<float> out(static_cast<std::size_t>(decoder.rows() * decoder.cols()));
  Pool pool(2, level);
  decoder.decode_all({out.data(), decoder.rows(), decoder.cols()}, pool);
  return out;
}

TEST(DecodeGolden, EveryPayloadDecodesToTheReferenceBits) {
  int checked = 0;
  for (const std::string prefix : {"rtn-", "place-", "gptq-", "q1-"}) {
    for (const auto& folder : test::golden_cases(prefix)) {
      const GoldenCase golden(folder);
      for (const auto& [file, info] : golden.json()["files"].items()) {
        if (!file.ends_with(".bin")) continue;
        const std::string dequant = file.substr(0, file.size() - 4) + ".deq.f32";
        if (!golden.has(dequant)) continue;
        for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
          const std::vector<float> out = decode_case(golden, file, level);
          EXPECT_TRUE(golden.matches(dequant, std::as_bytes(std::span(out))))
              << golden.name() << "/" << file << " at " << simd_name(level);
        }
        ++checked;
      }
    }
  }
  if (checked == 0) GTEST_SKIP() << "no golden vectors below " << test::golden_dir();
  std::cout << "decoded payloads checked: " << checked << "\n";
}

}  // namespace
}  // namespace cortiq::codec
