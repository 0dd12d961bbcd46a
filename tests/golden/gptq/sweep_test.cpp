// The sweeps with --rung diag --ladder converter (natural) and --order act against the existing
// tool's payloads. Its ladder is the C library's and its sweep is f32, so near-ties may differ:
// codes >= 99 %, output error inside the band that the golden README defines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "cortiq/codec/decode.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/backend.hpp"
#include "data_dirs.hpp"
#include "gptq_case.hpp"

namespace cortiq::gptq {
namespace {

using test::GptqCase;

constexpr double kEqualShare = 0.99;
constexpr double kBandSlack = 0.01;  // golden README: [0.99 min, 1.01 max]
constexpr double kReportTolerance = 1e-5;
// Decoded values are rounded to f32 (2^-24 relative), which the sweep does not see: 2 sqrt(err *
// energy) * 2^-24, doubled.
constexpr double kDecodeRounding = 4 * 0x1p-24;

struct Variant {
  const char* name;
  Target target;
  Q2tpRule rule;
  Order order;
  const char* debias;  // file suffix, nullptr = none
};

constexpr Variant kVariants[] = {
    {"q4tp", Target::kQ4tp, Q2tpRule::kPlaced, Order::kNatural, nullptr},
    {"q4tp", Target::kQ4tp, Q2tpRule::kPlaced, Order::kNatural, "_debias_hessian"},
    {"q4tp_act", Target::kQ4tp, Q2tpRule::kPlaced, Order::kAct, nullptr},
    {"q4tp_act", Target::kQ4tp, Q2tpRule::kPlaced, Order::kAct, "_debias_hessian"},
    {"q2tp_cortiq", Target::kQ2tp, Q2tpRule::kCortiq, Order::kNatural, nullptr},
    {"q2tp_cortiq", Target::kQ2tp, Q2tpRule::kCortiq, Order::kNatural, "_debias_hessian"},
    {"q2tp_cortiq_act", Target::kQ2tp, Q2tpRule::kCortiq, Order::kAct, nullptr},
    {"q2tp_cortiq_act", Target::kQ2tp, Q2tpRule::kCortiq, Order::kAct, "_debias_gemm"},
    {"q2tp_placed", Target::kQ2tp, Q2tpRule::kPlaced, Order::kNatural, nullptr},
    {"q2tp_placed", Target::kQ2tp, Q2tpRule::kPlaced, Order::kNatural, "_debias_hessian"},
    {"q2tp_placed_act", Target::kQ2tp, Q2tpRule::kPlaced, Order::kAct, nullptr},
    {"q2tp_placed_act", Target::kQ2tp, Q2tpRule::kPlaced, Order::kAct, "_debias_gemm"},
};

std::string file_stem(const Variant& v) {
  return std::string(v.name) + (v.debias != nullptr ? v.debias : "");
}

std::vector<float> decode(Target target, std::int64_t rows, std::int64_t cols,
                          const std::vector<std::byte>& payload) {
  const std::int64_t shape[] = {rows, cols};
  const codec::RowDecoder decoder(target == Target::kQ4tp ? cmf::DType::kQ4tp : cmf::DType::kQ2tp,
                                  shape, payload, codec::LadderKind::kDeterministic);
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  decoder.decode(0, MatrixView<float>(values.data(), rows, cols));
  return values;
}

/// Shares of equal codes and rungs; zero groups are left out (their codes are free).
struct Agreement {
  double codes = 1;
  double rungs = 1;
};

Agreement agreement(const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                    const codec::PlaneLayout& layout, int bits, std::int64_t rows,
                    std::int64_t cols) {
  const auto* pa = reinterpret_cast<const std::uint8_t*>(a.data());
  const auto* pb = reinterpret_cast<const std::uint8_t*>(b.data());
  std::int64_t equal_codes = 0;
  std::int64_t equal_rungs = 0;
  std::int64_t groups = 0;
  const std::int64_t group_bytes = 4 * bits;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint64_t rung_row =
        layout.rungs_offset + static_cast<std::uint64_t>(r * layout.rung_row_bytes);
    for (std::int64_t g = 0; g < cols / 32; ++g) {
      const unsigned ra = codec::get_rung(pa + rung_row, g);
      const unsigned rb = codec::get_rung(pb + rung_row, g);
      if (bits == 2 && ra == 0 && rb == 0) continue;
      ++groups;
      equal_rungs += ra == rb ? 1 : 0;
      for (std::int64_t k = 0; k < group_bytes; ++k) {
        const std::int64_t at = (r * (cols / 32) + g) * group_bytes + k;
        for (int shift = 0; shift < 8; shift += bits) {
          const int mask = (1 << bits) - 1;
          equal_codes += ((pa[at] >> shift) & mask) == ((pb[at] >> shift) & mask) ? 1 : 0;
        }
      }
    }
  }
  if (groups == 0) return {};
  return {static_cast<double>(equal_codes) / static_cast<double>(32 * groups),
          static_cast<double>(equal_rungs) / static_cast<double>(groups)};
}

void expect_params(const Variant& v, const std::vector<std::byte>& ours,
                   const std::vector<std::byte>& theirs, const codec::PlaneLayout& layout,
                   std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::size_t at = layout.params_offset + static_cast<std::size_t>(4 * r);
    const auto lo = load_le<std::uint16_t>(ours.data() + at);
    const auto lo_expected = load_le<std::uint16_t>(theirs.data() + at);
    EXPECT_EQ(load_le<std::uint16_t>(ours.data() + at + 2),
              load_le<std::uint16_t>(theirs.data() + at + 2))
        << "step " << r;
    // The slope of a debias sees the few codes that differ: one f16 unit.
    EXPECT_LE(std::abs(static_cast<int>(lo) - static_cast<int>(lo_expected)),
              v.debias != nullptr ? 1 : 0)
        << "lo " << r;
  }
}

void expect_output_error(const GptqCase& c, const Variant& v, const SweepResult& result,
                         const std::vector<float>& weights, std::int64_t rows, Pool& pool) {
  const std::vector<float> decoded = decode(v.target, rows, c.n, result.payload);
  const OutputError direct =
      output_error(ConstMatrixView<float>(weights.data(), rows, c.n),
                   ConstMatrixView<float>(decoded.data(), rows, c.n), c.hessian(), pool);
  const double rounding = kDecodeRounding * std::sqrt(std::fabs(direct.error * direct.energy));
  EXPECT_NEAR(result.output_error, direct.error,
              kReportTolerance * std::fabs(direct.error) + rounding);
  EXPECT_NEAR(result.output_energy, direct.energy, 1e-9 * std::fabs(direct.energy));
  const auto& metric = c.json["metrics"][file_stem(v)];
  const double expected = metric["out_err"];
  double least = 1;
  double most = 1;
  if (metric.contains("u_off_by")) {
    least = metric["u_off_by"]["1e-6"]["out_err_ratio_min"];
    most = metric["u_off_by"]["1e-6"]["out_err_ratio_max"];
  }
  const double ratio = direct.error / expected;
  EXPECT_GE(ratio, least * (1 - kBandSlack));
  EXPECT_LE(ratio, most * (1 + kBandSlack));
}

void check_variant(const GptqCase& c, const Variant& v, Backend& backend, Pool& pool) {
  const std::int64_t rows = c.json["rows"];
  const std::vector<float> weights = c.read<float>("w.f32");
  const auto factor = backend.fold(
      c.hessian(), {.lambda = c.json["lambda"], .base = c.reference_base(), .order = v.order});
  const SweepResult result =
      backend.sweep(ConstMatrixView<float>(weights.data(), rows, c.n), c.hessian(), *factor,
                    {.target = v.target,
                     .order = v.order,
                     .rung = Rung::kDiag,
                     .ladder = LadderFit::kConverter,
                     .rule = v.rule,
                     .debias = v.debias != nullptr});
  const int bits = v.target == Target::kQ4tp ? 4 : 2;
  const codec::PlaneLayout layout = codec::plane_layout(bits, rows, c.n);
  const auto expected = c.read<std::byte>(file_stem(v) + ".bin");
  ASSERT_EQ(result.payload.size(), expected.size());
  if (factor->dead_channels == c.n) {
    // The existing tool writes an all-zero tensor here; ours rounds the weights.
    EXPECT_LT(result.dead_groups, rows * c.n / 32);
    return;
  }
  expect_params(v, result.payload, expected, layout, rows);
  const Agreement agree = agreement(result.payload, expected, layout, bits, rows, c.n);
  EXPECT_GE(agree.codes, kEqualShare);
  EXPECT_GE(agree.rungs, v.order == Order::kAct ? 1.0 : kEqualShare);
  expect_output_error(c, v, result, weights, rows, pool);
}

TEST(GoldenSweep, matches_the_existing_tool) {
  const auto folders = test::golden_cases("gptq-");
  if (folders.empty()) GTEST_SKIP() << "no golden folder: " << test::golden_dir();
  Pool pool(2);
  const auto backend = make_host_backend(pool);
  for (const auto& folder : folders) {
    const GptqCase c(folder);
    for (const Variant& v : kVariants) {
      if (!c.json["files"].contains(file_stem(v) + ".bin")) continue;
      SCOPED_TRACE(folder.filename().string() + " " + file_stem(v));
      check_variant(c, v, *backend, pool);
    }
  }
}

}  // namespace
}  // namespace cortiq::gptq
