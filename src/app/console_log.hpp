// console_log.hpp: log and progress on stderr. A redrawn bar only on a terminal; otherwise whole
// lines, at least one a minute while something is going on; or JSON lines.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cortiq/support/log.hpp"

namespace spdlog {
class logger;
}

namespace cortiq::app {

enum class LogStyle { kText, kJson };

class ConsoleLog final : public Log {
 public:
  ConsoleLog(LogStyle style, LogLevel least);
  ~ConsoleLog() override;
  void write(LogLevel level, std::string_view message) override;
  void progress(std::string_view phase, std::int64_t done, std::int64_t total,
                std::string_view unit) override;

 private:
  using Clock = std::chrono::steady_clock;
  void erase_bar();
  void draw(std::string_view phase, std::int64_t done, std::int64_t total, double elapsed);
  void print_progress(std::string_view phase, std::int64_t done, std::int64_t total,
                      std::string_view unit, double elapsed);

  LogStyle style_;
  LogLevel least_;
  bool terminal_;
  std::shared_ptr<spdlog::logger> logger_;
  std::mutex mutex_;
  std::string phase_;
  Clock::time_point phase_start_;
  Clock::time_point last_shown_;
  bool bar_drawn_ = false;
};

}  // namespace cortiq::app
