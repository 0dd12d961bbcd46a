// features.hpp: the required_features bits of a CMF file and the content that sets them (cmf.md
// section 1.1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cortiq/cmf/dtype.hpp"
#include "cortiq/cmf/header.hpp"

namespace cortiq::cmf {

namespace feature {
inline constexpr std::uint32_t kTensorDir = 1U << 0;
inline constexpr std::uint32_t kBinaryMasks = 1U << 1;
inline constexpr std::uint32_t kQuant2f = 1U << 2;
inline constexpr std::uint32_t kLoopMasks = 1U << 5;
inline constexpr std::uint32_t kSkillFile = 1U << 6;
inline constexpr std::uint32_t kPrismHadamard = 1U << 7;
inline constexpr std::uint32_t kPrismAffine = 1U << 8;
inline constexpr std::uint32_t kSkillsV2 = 1U << 9;
inline constexpr std::uint32_t kRouterV2 = 1U << 10;
inline constexpr std::uint32_t kDecision = 1U << 11;
inline constexpr std::uint32_t kBoundedState = 1U << 12;
inline constexpr std::uint32_t kGenome = 1U << 13;
inline constexpr std::uint32_t kBlockDiffusion = 1U << 15;
}  // namespace feature

/// Bits that this program reads.
inline constexpr std::uint32_t kSupportedFeatures = 0xBFE7U;
/// Bits that must agree with the header in both directions.
inline constexpr std::uint32_t kCrossCheckedFeatures =
    feature::kPrismHadamard | feature::kPrismAffine | feature::kSkillsV2 | feature::kRouterV2 |
    feature::kDecision | feature::kBoundedState | feature::kGenome | feature::kBlockDiffusion;

/// "QUANT_2F, bit 14" for messages; "none" for 0.
[[nodiscard]] std::string feature_names(std::uint32_t features);
/// Bits that follow from the content of a file.
[[nodiscard]] std::uint32_t derive_features(const Header& header, const std::vector<DType>& dtypes,
                                            bool has_masks);
/// Why a file with these features must not be quantized, as a clause for a message; empty if
/// nothing forbids it. Block diffusion is not refused here: such a file may be copied, but
/// calibration by next tokens means nothing for it.
[[nodiscard]] std::string refuse_reason_for_quantize(std::uint32_t features);

}  // namespace cortiq::cmf
