// factor.hpp: U on the device, in elimination order, normalized: D^2 is the damped diagonal over the damping base, so
// U' = U * sqrt(base) and (W-Q) H_d (W-Q)^T = base * sum of e'^2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/gptq/fold.hpp"
#include "engine.hpp"

namespace cortiq::device {

/// Columns of a diagonal block of U: what a workgroup of the sweep walks before a product updates the rest.
inline constexpr std::int64_t kBlockColumns = 256;

/// Damped diagonal and order of one Hessian, on the host.
struct Scaling {
  gptq::ChannelFacts facts;
  std::vector<std::int64_t> elimination;  ///< position -> channel
  double base = 0;
  double lambda = 0;
  double damping = 0;                 ///< lambda * base
  std::vector<float> inverse;         ///< by position of the elimination order: 1 / D'
  std::vector<float> diagonal;        ///< by position: H_ii / base, undamped, 0 for dead channels
  double largest_ratio = 1;           ///< largest D'^2 / lambda: bounds |X|^2
};

class DeviceFactor final : public gptq::Factor {
 public:
  [[nodiscard]] std::int64_t n() const override {
    return static_cast<std::int64_t>(scaling.elimination.size());
  }
  Scaling scaling;
  const Engine* engine = nullptr;  ///< the device that holds it
  std::int64_t size = 0;           ///< n padded to kTile
  Operand u;                       ///< lines of U'^T outside the diagonal blocks, [size, size]
  vulkan::Buffer band;             ///< [size/256][256][256] f32 diagonal blocks of U'
  vulkan::Buffer h;                ///< packed undamped H, upper triangle by rows, natural order
  vulkan::Buffer channel;          ///< [n] position -> channel, bit 31 = dead
  vulkan::Buffer inverse;          ///< [n] 1 / D'
  vulkan::Buffer diagonal;         ///< [n] Scaling::diagonal
};

struct FoldOutcome {
  std::unique_ptr<DeviceFactor> factor;  ///< null: declined
  std::string reason;                    ///< why it was declined
};

/// Device time of the fold itself: from the packed H on the device to U, without the upload.
struct FoldTimes {
  std::int64_t panel = 0;  ///< in: columns of a panel, 0 = the default (benchmarks)
  double device_seconds = 0;
};

/// U in the host's units and elimination order, [n,n] with zeros below the diagonal (tests and tools).
[[nodiscard]] std::vector<double> read_factor(const Engine& engine, const DeviceFactor& factor);

/// Bytes of device memory that a fold of width n needs at its peak, and that its result keeps.
struct FoldBytes {
  std::uint64_t peak = 0;
  std::uint64_t kept = 0;
};
[[nodiscard]] FoldBytes fold_bytes(std::int64_t n);

/// H -> U on the device (vulkan.md; gptq.md section 3.3). h_upper: finite. Declines (with the reason) where
/// f32 cannot factor the damped matrix, or an H without live channels. Throws Error for device failures.
[[nodiscard]] FoldOutcome fold_on_device(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                                         ConstMatrixView<double> h_upper,
                                         const gptq::FoldOptions& options,
                                         FoldTimes* times = nullptr);

}  // namespace cortiq::device
