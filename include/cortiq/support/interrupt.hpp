// interrupt.hpp: the request to stop, set by a signal handler of the program and polled between
// units of work.
#pragma once

#include <atomic>

#include "cortiq/support/error.hpp"

namespace cortiq {

class Interrupt {
 public:
  void request() noexcept { flag_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool requested() const noexcept { return flag_.load(std::memory_order_relaxed); }
  /// Throws Error{kInterrupted} if a stop was requested.
  void check() const {
    if (requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
  }

 private:
  std::atomic<bool> flag_{false};
};

}  // namespace cortiq
