// Every payload of the reference encoders, made again from the stored weights: equal bytes at every
// instruction set.
#include <gtest/gtest.h>

#include <iostream>
#include <optional>

#include "cortiq/codec/codec.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/codec/variants.hpp"
#include "golden_case.hpp"

namespace cortiq::codec {
namespace {

using test::GoldenCase;

constexpr SimdLevel kLevels[] = {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512};

struct Matrix {
  std::vector<float> values;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  [[nodiscard]] ConstMatrixView<float> view() const { return {values.data(), rows, cols}; }
};

Matrix read_weights(const GoldenCase& golden) {
  return {golden.values<float>("w.f32"), golden.json()["rows"], golden.json()["cols"]};
}

/// Encodes as the stem of a golden file says ("q4tp_nosearch", "q1s_k0100"...); nullopt for a stem
/// that no encoder has.
std::optional<std::vector<std::byte>> encode_stem(const std::string& stem, const Matrix& w,
                                                  Pool& pool) {
  EncodeOptions options;
  if (stem == "vbit") return encode_vbit_legacy(w.view(), options.vbit_mean_bits, pool);
  if (stem == "q1t_exact") return encode_q1t_exact(w.view(), pool);
  std::string base = stem;
  if (base.ends_with("_nosearch")) {
    options.rung_search = false;
    base.resize(base.size() - 9);
  }
  if (base == "vbit_ro" || base == "vbit_ro_m6") {
    if (base.ends_with("m6")) options.vbit_mean_bits = 6.0F;
    return encode(Codec::kVbit, w.view(), options, pool);
  }
  if (base.starts_with("q1s_k")) {
    options.q1s_keep = static_cast<float>(std::stoi(base.substr(5))) / 10000.0F;
    return encode(Codec::kQ1s, w.view(), options, pool);
  }
  if (base == "q2tp_v1" || base == "q2tp_v2") {
    options.q2tp_v1 = base.ends_with("1");
    return encode(Codec::kQ2tp, w.view(), options, pool);
  }
  const auto codec = try_parse_codec(base);
  if (!codec) return std::nullopt;
  return encode(*codec, w.view(), options, pool);
}

TEST(EncodeGolden, EveryRoundToNearestPayloadHasTheReferenceBytes) {
  int checked = 0;
  for (const auto& folder : test::golden_cases("rtn-")) {
    const GoldenCase golden(folder);
    const Matrix w = read_weights(golden);
    for (const auto& [file, info] : golden.json()["files"].items()) {
      if (!file.ends_with(".bin")) continue;
      for (const SimdLevel level : kLevels) {
        Pool pool(2, level);
        const auto payload = encode_stem(file.substr(0, file.size() - 4), w, pool);
        ASSERT_TRUE(payload.has_value()) << "no encoder for " << golden.name() << "/" << file;
        EXPECT_TRUE(golden.matches(file, *payload))
            << golden.name() << "/" << file << " at " << simd_name(level);
      }
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "no golden vectors below " << test::golden_dir();
  std::cout << "payloads checked: " << checked << "\n";
}

TEST(EncodeGolden, ColumnFallbacksChooseTheReferenceTypeAndBytes) {
  int checked = 0;
  for (const auto& folder : test::golden_cases("rtn-")) {
    const GoldenCase golden(folder);
    if (!golden.json().contains("quantize_2d")) continue;
    const Matrix w = read_weights(golden);
    Pool pool(1);
    for (const auto& [name, expected] : golden.json()["quantize_2d"].items()) {
      const auto parsed = try_parse_codec(name);
      if (!parsed) continue;  // whole-file profiles
      const Codec codec = with_column_fallback(*parsed, w.cols);
      EXPECT_EQ(static_cast<int>(dtype_of(codec)), expected["dtype_id"].get<int>())
          << golden.name() << " " << name;
      const auto payload = encode(codec, w.view(), {}, pool);
      EXPECT_EQ(test::sha256_hex(payload), expected["sha256"].get<std::string>())
          << golden.name() << " " << name;
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "no golden vectors below " << test::golden_dir();
  std::cout << "fallbacks checked: " << checked << "\n";
}

TEST(EncodeGolden, ExactTernaryRefusesWhatTheReferenceRefuses) {
  int refused = 0;
  for (const auto& folder : test::golden_cases("rtn-")) {
    const GoldenCase golden(folder);
    if (!golden.json().contains("q1t_exact") || !golden.json()["q1t_exact"].is_object()) continue;
    const Matrix w = read_weights(golden);
    Pool pool(1);
    EXPECT_THROW(static_cast<void>(encode_q1t_exact(w.view(), pool)), Error) << golden.name();
    ++refused;
  }
  if (refused == 0) GTEST_SKIP() << "no golden vectors below " << test::golden_dir();
}

TEST(EncodeGolden, PlacedRowsWithWeightsMatch) {
  int checked = 0;
  for (const auto& folder : test::golden_cases("place-")) {
    const GoldenCase golden(folder);
    const Matrix w = read_weights(golden);
    const auto hw = golden.values<float>("hw.f32");
    const auto params = golden.values<LadderParams>("params.bin");
    const auto rungs = golden.values<std::uint8_t>("rungs.bin");
    const auto cols = static_cast<std::size_t>(w.cols);
    for (std::size_t r = 0; r < params.size(); ++r) {
      for (const SimdLevel level : kLevels) {
        if (level > detect_simd()) continue;
        std::vector<std::uint8_t> got(cols / 32);
        const LadderParams p =
            q2tp_place_row(std::span(w.values).subspan(r * cols, cols), hw, got, level);
        EXPECT_EQ(p, params[r]) << golden.name() << " row " << r;
        EXPECT_TRUE(std::equal(got.begin(), got.end(),
                               rungs.begin() + static_cast<std::ptrdiff_t>(r * got.size())))
            << golden.name() << " row " << r;
      }
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "no golden vectors below " << test::golden_dir();
  std::cout << "placed rows checked: " << checked << "\n";
}

}  // namespace
}  // namespace cortiq::codec
