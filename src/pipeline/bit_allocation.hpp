// bit_allocation.hpp: a codec for each candidate so that the predicted loss is least for the bytes
// (--target-bpw, --target-size). The loss of a tensor is its output error relative to its output, measured with the
// cached Hessians and the options of the run for q2tp, q4tp, q8_2f and f16.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/codec/policy.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/options.hpp"

namespace cortiq::pipeline {

/// One codec that a tensor may get.
struct CodecOption {
  codec::Codec codec = codec::Codec::kQ4tp;
  std::uint64_t bytes = 0;
  double loss = 0;
};

/// A tensor and its codecs, ascending in bytes. At least one.
struct TensorOptions {
  std::string name;
  std::uint64_t weights = 0;
  std::vector<CodecOption> options;
};

struct Allocation {
  std::vector<std::size_t> chosen;  ///< index into options, per tensor
  std::uint64_t bytes = 0;
  double loss = 0;
};

/// Least sum of losses with a sum of bytes of at most `budget`: upgrades along each tensor's lower convex hull by falling
/// gain per byte (exact up to the last upgrade), then smaller ones that still fit. Ties: the earlier tensor.
/// nullopt: not even the smallest codecs fit.
[[nodiscard]] std::optional<Allocation> allocate(const std::vector<TensorOptions>& tensors, std::uint64_t budget);

/// The allocation of least loss whose file has at most `wanted` bytes. @param file_bytes  exact size of the file with an
/// allocation; it must not fall where a tensor gets more bytes. Alignment of payloads makes it move in steps of its own,
/// so the sum of bytes is found by bisection (some 40 calls). nullopt: not even the smallest codecs fit.
[[nodiscard]] std::optional<Allocation> allocate_file(const std::vector<TensorOptions>& tensors, std::uint64_t wanted,
                                                      const std::function<std::uint64_t(const Allocation&)>& file_bytes);

/// options with a codec for every candidate in selection.overrides (behind the user's own). Logs the allocation. The
/// cache options.hessians is made first if it does not exist. Throws Error{kRefused} where the target cannot be met.
[[nodiscard]] GptqOptions with_allocated_bits(const GptqOptions& options, Context& context);

}  // namespace cortiq::pipeline
