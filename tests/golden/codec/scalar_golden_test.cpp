// The scalar building blocks against the reference: halves, log2 and exp2, ladders, rung codes,
// debias.
#include <gtest/gtest.h>

#include <cmath>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/half.hpp"
#include "golden_case.hpp"

namespace cortiq::codec {
namespace {

using test::GoldenCase;

std::optional<GoldenCase> find_case(const std::string& name) {
  const auto found = test::golden_cases(name);
  if (found.empty()) return std::nullopt;
  return GoldenCase(found.front());
}

bool same_bits_or_nan(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

#define FIND_OR_SKIP(variable, name)     \
  const auto variable = find_case(name); \
  if (!variable) GTEST_SKIP() << "no golden case " << (name)

TEST(ScalarGolden, HalvesOfFloatsAndScalesMatch) {
  FIND_OR_SKIP(golden, "scalar-f32_to_f16");
  const auto x = golden->values<float>("x.f32");
  const auto half = golden->values<std::uint16_t>("half.u16");
  const auto scale = golden->values<float>("scale.f32");
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(f32_to_f16(x[i]), half[i]) << x[i];
    // A file never holds a negative scale; the reference clamps those to the least one as well.
    ASSERT_TRUE(same_bits_or_nan(f16_scale(x[i]), scale[i]))
        << x[i] << " gives " << f16_scale(x[i]);
  }
}

TEST(ScalarGolden, DeterministicLogarithmAndPowerMatch) {
  FIND_OR_SKIP(log_case, "scalar-det_log2");
  FIND_OR_SKIP(exp_case, "scalar-det_exp2");
  const auto lx = log_case->values<float>("x.f32");
  const auto ly = log_case->values<float>("y.f32");
  for (std::size_t i = 0; i < lx.size(); ++i) {
    ASSERT_TRUE(same_bits_or_nan(det_log2(lx[i]), ly[i])) << lx[i];
  }
  const auto ex = exp_case->values<float>("x.f32");
  const auto ey = exp_case->values<float>("y.f32");
  for (std::size_t i = 0; i < ex.size(); ++i) {
    ASSERT_TRUE(same_bits_or_nan(det_exp2(ex[i]), ey[i])) << ex[i];
  }
}

TEST(ScalarGolden, LaddersMatch) {
  FIND_OR_SKIP(golden, "scalar-ladders");
  const auto params = golden->values<LadderParams>("params.bin");
  const auto check = [&](const char* file, Ladder (*make)(LadderParams) noexcept, float relative) {
    const auto expected = golden->values<float>(file);
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Ladder ladder = make(params[i]);
      for (std::size_t c = 0; c < kRungs; ++c) {
        const float e = expected[i * kRungs + c];
        if (relative > 0.0F && std::isfinite(e)) {
          ASSERT_NEAR(ladder[c], e, relative * std::fabs(e))
              << file << " row " << i << " rung " << c;
        } else {
          ASSERT_TRUE(same_bits_or_nan(ladder[c], e)) << file << " row " << i << " rung " << c;
        }
      }
    }
  };
  check("det_q4tp.f32", q4tp_ladder, 0.0F);
  check("det_q2tp.f32", q2tp_ladder, 0.0F);
  check("runtime_q4tp.f32", q4tp_ladder_runtime, 1e-6F);
  check("runtime_q2tp.f32", q2tp_ladder_runtime, 1e-6F);
}

TEST(ScalarGolden, RungCodesPackAndUnpack) {
  FIND_OR_SKIP(golden, "scalar-codes5");
  for (const auto& item : golden->json()["codes"]) {
    const auto codes = item["codes"].get<std::vector<unsigned>>();
    const auto groups = static_cast<std::int64_t>(codes.size());
    ASSERT_EQ(rung_row_bytes(groups), item["stride"].get<std::int64_t>());
    std::vector<std::uint8_t> row(static_cast<std::size_t>(rung_row_bytes(groups)));
    for (std::int64_t g = 0; g < groups; ++g)
      put_rung(row.data(), g, codes[static_cast<std::size_t>(g)]);
    std::string hex;
    for (const std::uint8_t byte : row) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    EXPECT_EQ(hex, item["bytes"].get<std::string>());
    for (std::int64_t g = 0; g < groups; ++g) {
      EXPECT_EQ(get_rung(row.data(), g), codes[static_cast<std::size_t>(g)]);
    }
  }
}

TEST(ScalarGolden, UnshrinkMatches) {
  FIND_OR_SKIP(golden, "scalar-q2tp_unshrink_row");
  const auto in = golden->values<LadderParams>("params_in.bin");
  const auto out = golden->values<LadderParams>("params_out.bin");
  const auto num_den = golden->values<double>("num_den.f64");
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(unshrink(in[i], num_den[2 * i], num_den[2 * i + 1]), out[i]) << i;
  }
}

}  // namespace
}  // namespace cortiq::codec
