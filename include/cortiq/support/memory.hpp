// memory.hpp: how much memory this process may use and uses.
#pragma once

#include <cstdint>
#include <optional>

namespace cortiq {

/// MemAvailable, lowered to the headroom of this process's control group and those above it (v2
/// memory.max, v1 memory.limit_in_bytes).
[[nodiscard]] std::optional<std::uint64_t> available_memory_bytes();
/// MemTotal, lowered to the limit of the control group.
[[nodiscard]] std::optional<std::uint64_t> total_memory_bytes();
/// Resident set of this process now; 0 where unknown.
[[nodiscard]] std::uint64_t resident_bytes();
/// Peak resident set of this process so far; 0 where unknown.
[[nodiscard]] std::uint64_t peak_resident_bytes();
/// CPU seconds (user + system, all threads) of this process so far.
[[nodiscard]] double process_cpu_seconds();

}  // namespace cortiq
