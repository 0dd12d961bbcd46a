// bit_target.hpp: how many bits a run shall spend: --target-bpw and --target-size.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cortiq::pipeline {

/// At most one of the two.
struct BitTarget {
  std::optional<double> bits_per_weight;     ///< mean over the GPTQ candidates, all planes counted
  std::optional<std::uint64_t> file_bytes;   ///< of the whole output
  [[nodiscard]] bool given() const { return bits_per_weight || file_bytes; }
};

/// "850000000", "850MB", "1.5GB" (powers of ten), "800MiB", "1.5GiB". Throws Error{kUsage}.
[[nodiscard]] std::uint64_t parse_size(std::string_view text);

}  // namespace cortiq::pipeline
