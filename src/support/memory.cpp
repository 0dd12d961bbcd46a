#include "cortiq/support/memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace cortiq {
namespace {

std::optional<std::uint64_t> meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> name >> kib) {
    std::getline(file, rest);
    if (name == key + ":") return kib * 1024;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value && value < (std::uint64_t{1} << 62)) return value;
  return std::nullopt;  // absent, "max", or the "no limit" number of version 1
}

/// A number behind a key of a "key value" file.
std::uint64_t entry_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

struct GroupMemory {
  std::optional<std::uint64_t> limit;
  std::uint64_t used = 0;
};

/// The page cache of files counts as used but is given back on demand.
std::uint64_t used_without_cache(const char* usage, const char* stat, const std::string& key) {
  const std::uint64_t used = number_in(usage).value_or(0);
  return used - std::min(used, entry_of(stat, key));
}

GroupMemory group_memory() {
  if (const auto limit = number_in("/sys/fs/cgroup/memory.max")) {
    return {limit, used_without_cache("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
                                      "inactive_file")};
  }
  if (const auto limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")) {
    return {limit, used_without_cache("/sys/fs/cgroup/memory/memory.usage_in_bytes",
                                      "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file")};
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> available_memory_bytes() {
  auto available = meminfo_bytes("MemAvailable");
  const GroupMemory group = group_memory();
  if (group.limit) {
    const std::uint64_t headroom = *group.limit > group.used ? *group.limit - group.used : 0;
    available = available ? std::min(*available, headroom) : headroom;
  }
  return available;
}

std::optional<std::uint64_t> total_memory_bytes() {
  auto total = meminfo_bytes("MemTotal");
  const GroupMemory group = group_memory();
  if (group.limit) total = total ? std::min(*total, *group.limit) : *group.limit;
  return total;
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double process_cpu_seconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace cortiq
