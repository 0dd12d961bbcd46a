// error.hpp: the one exception type that crosses module boundaries, and the assertion macros.
//
// Message form: "where: what: detail; what to do". Callers add context with with_context.
// Outcomes that an algorithm expects (a failed pivot, a name that is not there) are returned, not
// thrown.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cortiq {

/// Closed list; src/app maps each kind to an exit code (README, "Exit codes").
enum class ErrorKind {
  kUsage,        ///< wrong option or combination of options
  kInput,        ///< damaged or unusable input
  kUnsupported,  ///< valid input that this program does not handle
  kIo,           ///< the operating system refused: open, read, write, no space
  kNumeric,      ///< NaN, infinity, a factorization that cannot be had
  kDevice,       ///< accelerator error
  kDeviceLost,   ///< accelerator gone; the host may take over
  kOutOfMemory,  ///< host or device memory
  kRefused,      ///< guard: memory, disk, too few tokens, mismatched cache, too many missed tensors
  kInterrupted,  ///< SIGINT or SIGTERM
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws Error{kind, fmt::format(format, args...)}.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Runs fn; an Error that leaves it gets "context: " in front of its message, with the same kind.
template <typename Fn>
decltype(auto) with_context(std::string_view context, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", context, error.what()));
  }
}

namespace detail {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}  // namespace detail

}  // namespace cortiq

/// Always on, for programmer errors only; never reachable from user input.
#define CORTIQ_ASSERT(expression) \
  (static_cast<bool>(expression)  \
       ? void(0)                  \
       : ::cortiq::detail::assertion_failed(#expression, __FILE__, __LINE__))
#ifdef NDEBUG
#define CORTIQ_DCHECK(expression) void(0)
#else
#define CORTIQ_DCHECK(expression) CORTIQ_ASSERT(expression)
#endif
