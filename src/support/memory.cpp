#include "cortiq/support/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

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

/// Limit and use of one control group.
GroupMemory memory_of(const std::string& folder, bool version2) {
  const char* limit = version2 ? "/memory.max" : "/memory.limit_in_bytes";
  const char* used = version2 ? "/memory.current" : "/memory.usage_in_bytes";
  const char* cache = version2 ? "inactive_file" : "total_inactive_file";
  return {number_in((folder + limit).c_str()),
          used_without_cache((folder + used).c_str(), (folder + "/memory.stat").c_str(), cache)};
}

/// This process's group below the mount point, "/" where it is unknown (or inside a container).
std::string own_group(bool version2) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool fits = version2 ? controllers.empty()
                               : ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (fits) return line.substr(second + 1);
  }
  return "/";
}

/// The group with the least headroom of this process's own and those above it.
GroupMemory group_memory() {
  const bool version2 = std::ifstream("/sys/fs/cgroup/cgroup.controllers").good();
  const std::string mount = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
  GroupMemory tightest;
  for (std::string group = own_group(version2);;) {
    const GroupMemory memory = memory_of(group == "/" ? mount : mount + group, version2);
    const auto headroom = [](const GroupMemory& m) {
      return *m.limit - std::min(*m.limit, m.used);
    };
    if (memory.limit && (!tightest.limit || headroom(memory) < headroom(tightest)))
      tightest = memory;
    if (group.size() <= 1) return tightest;
    group.resize(std::max<std::size_t>(group.rfind('/'), 1));
  }
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

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
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
