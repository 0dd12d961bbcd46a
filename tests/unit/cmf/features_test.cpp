#include "cortiq/cmf/features.hpp"

#include <gtest/gtest.h>

#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

std::uint32_t derived(const Json& header, std::vector<DType> dtypes = {}, bool masks = false) {
  return derive_features(Header(header), dtypes, masks);
}

TEST(Features, FollowFromTheContent) {
  const Json plain = test::minimal_header();
  EXPECT_EQ(derived(plain), 0x1U);
  EXPECT_EQ(derived(plain, {DType::kF16, DType::kQ82f}), 0x5U);
  EXPECT_EQ(derived(plain, {DType::kVbit}), 0x5U);
  EXPECT_EQ(derived(plain, {DType::kVbitRo}), 0x1U);
  EXPECT_EQ(derived(plain, {}, true), 0x3U);
  Json looped = plain;
  looped["arch"]["num_loops"] = 2;
  EXPECT_EQ(derived(looped), 0x1U);
  EXPECT_EQ(derived(looped, {}, true), 0x23U);
}

TEST(Features, FollowFromHeaderRecords) {
  const auto with = [](const char* pointer, Json value) {
    Json json = test::minimal_header();
    json[Json::json_pointer(pointer)] = std::move(value);
    return derived(json) & ~1U;
  };
  EXPECT_EQ(with("/skills", Json::parse(R"([{"id":"a"},{"base_dir_hash":"00"}])")), 1U << 6);
  EXPECT_EQ(with("/skills", Json::parse(R"([{"kind":"x","base_dir_hash":null}])")), 1U << 9);
  EXPECT_EQ(with("/arch/prism_hadamard", Json::parse(R"({"block":64})")), 1U << 7);
  EXPECT_EQ(with("/arch/prism_hadamard", Json::parse(R"({"affine":{}})")), 3U << 7);
  EXPECT_EQ(with("/router", Json::object()), 1U << 10);
  EXPECT_EQ(with("/arch/arch_name", "cortiq-decision-1"), 1U << 11);
  EXPECT_EQ(with("/arch/anchor_core", Json::object()), 1U << 12);
  EXPECT_EQ(with("/genome", Json::object()), 1U << 13);
  EXPECT_EQ(with("/genome", nullptr), 0U);
  EXPECT_EQ(with("/arch/block_diffusion", Json::object()), 1U << 15);
}

TEST(Features, SomeForbidQuantization) {
  for (std::uint32_t bit = 0; bit < 16; ++bit) {
    const bool forbidden = bit == 6 || bit == 7 || bit == 8 || bit == 11 || bit == 12 || bit == 13;
    EXPECT_EQ(refuse_reason_for_quantize(1U << bit).empty(), !forbidden) << bit;
  }
}

TEST(Features, AreNamedInMessages) {
  EXPECT_EQ(feature_names(0), "none");
  EXPECT_EQ(feature_names(1U << 2 | 1U << 20), "QUANT_2F, bit 20");
}

}  // namespace
}  // namespace cortiq::cmf
