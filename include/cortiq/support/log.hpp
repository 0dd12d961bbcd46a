// log.hpp: what libraries say while they work. They never print; the program installs the sink.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cortiq {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Thread safe in every implementation of this project.
class Log {
 public:
  virtual ~Log() = default;
  virtual void write(LogLevel level, std::string_view message) = 0;
  /// Progress of the current phase; done and total in `unit` ("windows", "tensors", "bytes"…).
  /// total 0 = unknown. done == total ends the phase.
  virtual void progress(std::string_view phase, std::int64_t done, std::int64_t total,
                        std::string_view unit) = 0;

  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
};

/// Discards everything.
class NullLog final : public Log {
 public:
  void write(LogLevel, std::string_view) override {}
  void progress(std::string_view, std::int64_t, std::int64_t, std::string_view) override {}
};

/// Keeps the messages, for tests.
class MemoryLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message) override {
    const std::lock_guard lock(mutex_);
    lines.emplace_back(level, std::string(message));
  }
  void progress(std::string_view, std::int64_t, std::int64_t, std::string_view) override {}
  std::vector<std::pair<LogLevel, std::string>> lines;  ///< read it when nobody writes any more

 private:
  std::mutex mutex_;
};

}  // namespace cortiq
