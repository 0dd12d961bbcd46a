// scope.hpp: what a template knows while it runs: variables in nested scopes, the text so far, and
// bounds on the work, since a template comes with a model that somebody else made.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/error.hpp"
#include "value.hpp"

namespace cortiq::calib::jinja {

/// The template's own refusal (raise_exception) or data that it was not written for: a reason to
/// leave out one conversation. Never leaves this folder's callers (chat_template.cpp).
struct Refusal {
  std::string reason;
};
template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Refusal{fmt::format(format, std::forward<Args>(args)...)};
}

class Scope {
 public:
  explicit Scope(Dict globals) { levels_.push_back(std::move(globals)); }

  /// nullptr if there is no such variable.
  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value) { levels_.back().set(name, std::move(value)); }
  void push() { levels_.emplace_back(); }
  void pop() { levels_.pop_back(); }
  /// A macro sees the outermost level and its own.
  [[nodiscard]] std::vector<Dict> enter_macro();
  void leave_macro(std::vector<Dict> saved);

  std::string output;
  /// Counts one step of work.
  void step();
  /// Depth of macro calls.
  int depth = 0;

 private:
  std::vector<Dict> levels_;
  std::int64_t steps_ = 0;
};

inline constexpr std::size_t kMostOutputBytes = std::size_t{64} << 20;
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 22;
inline constexpr std::int64_t kMostItems = std::int64_t{1} << 20;
inline constexpr int kMostDepth = 64;

}  // namespace cortiq::calib::jinja
