#include "console_log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cortiq/cmf/header.hpp"

namespace cortiq::app {
namespace {

constexpr double kBarInterval = 0.1;  ///< seconds between redraws
constexpr double kLineInterval =
    10.0;  ///< seconds between progress lines where there is no terminal
constexpr int kBarWidth = 30;

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kInfo:
      break;
  }
  return spdlog::level::info;
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kInfo:
      break;
  }
  return "info";
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

double remaining(std::int64_t done, std::int64_t total, double elapsed) {
  return done > 0 ? elapsed * static_cast<double>(total - done) / static_cast<double>(done) : 0;
}

}  // namespace

ConsoleLog::ConsoleLog(LogStyle style, LogLevel least)
    : style_(style),
      least_(least),
      terminal_(style == LogStyle::kText && ::isatty(STDERR_FILENO) == 1),
      logger_(std::make_shared<spdlog::logger>("cortiq-quant",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_level(spdlog::level::trace);
  logger_->set_pattern(style == LogStyle::kJson ? "%v" : "[%H:%M:%S] %v");
  logger_->flush_on(spdlog::level::trace);
}

ConsoleLog::~ConsoleLog() { erase_bar(); }

void ConsoleLog::write(LogLevel level, std::string_view message) {
  if (level < least_) return;
  const std::lock_guard lock(mutex_);
  erase_bar();
  if (style_ == LogStyle::kJson) {
    const cmf::Json json{{"event", "log"}, {"level", level_name(level)}, {"message", message}};
    logger_->log(spdlog_level(level), "{}",
                 json.dump(-1, ' ', false, cmf::Json::error_handler_t::replace));
    return;
  }
  const char* prefix = level == LogLevel::kWarning ? "warning: "
                       : level == LogLevel::kError ? "error: "
                                                   : "";
  logger_->log(spdlog_level(level), "{}{}", prefix, message);
}

void ConsoleLog::progress(std::string_view phase, std::int64_t done, std::int64_t total,
                          std::string_view unit) {
  if (least_ > LogLevel::kInfo) return;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_start_ = now;
    last_shown_ = now;
    if (!terminal_) return;
  }
  const double since = std::chrono::duration<double>(now - last_shown_).count();
  const double elapsed = std::chrono::duration<double>(now - phase_start_).count();
  if (done >= total) phase_.clear();
  if (terminal_) {
    if (done >= total) {
      erase_bar();
    } else if (since >= kBarInterval || !bar_drawn_) {
      draw(phase, done, total, elapsed);
      last_shown_ = now;
    }
    return;
  }
  if (since < kLineInterval) return;
  last_shown_ = now;
  print_progress(phase, done, total, unit, elapsed);
}

void ConsoleLog::print_progress(std::string_view phase, std::int64_t done, std::int64_t total,
                                std::string_view unit, double elapsed) {
  const double eta = remaining(done, total, elapsed);
  if (style_ == LogStyle::kJson) {
    const cmf::Json json{{"event", "progress"}, {"phase", phase}, {"done", done},
                         {"total", total},      {"unit", unit},   {"seconds", elapsed},
                         {"eta_seconds", eta}};
    logger_->info("{}", json.dump());
    return;
  }
  logger_->info("{}: {:.1f} % ({} of {} {}), {} elapsed, {} left", phase,
                total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 0.0,
                done, total, unit, duration(elapsed), duration(eta));
}

void ConsoleLog::draw(std::string_view phase, std::int64_t done, std::int64_t total,
                      double elapsed) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0)
                : 0.0;
  const int filled = static_cast<int>(share * kBarWidth);
  const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                          std::string(static_cast<std::size_t>(kBarWidth - filled), '.');
  const std::string line =
      fmt::format("\r\x1b[K{} [{}] {:5.1f} %  {} elapsed, {} left", phase, bar, 100 * share,
                  duration(elapsed), duration(remaining(done, total, elapsed)));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  bar_drawn_ = true;
}

void ConsoleLog::erase_bar() {
  if (!bar_drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  bar_drawn_ = false;
}

}  // namespace cortiq::app
