// parallel.hpp: the execution context that is passed down: worker threads and the instruction set
// of the kernels.
//
// Determinism: work is cut by data (fixed tile sizes), never by thread; each output element has one
// writer; a reduction keeps its partial results in an array and adds them in index order. Then
// results do not depend on the number of threads. A Pool may be used from inside one of its own
// tasks (nested loops share the workers).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cortiq/support/cpu.hpp"

namespace cortiq {

class Pool {
 public:
  /// @param threads  0 = all cores that this process may use
  /// @param simd     kernels to use; a level that the processor lacks is lowered to detect_simd()
  explicit Pool(int threads = 0, SimdLevel simd = detect_simd());
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] int threads() const noexcept { return threads_; }
  [[nodiscard]] SimdLevel simd() const noexcept { return simd_; }

  /// Calls fn(i) once for each i in [0, count), in any order and on any worker; returns when all
  /// are done. If calls throw, the exception of the lowest i is rethrown (calls above it may be
  /// skipped). Throws Error{kIo} if the system starts no more threads.
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& fn);

  /// Calls fn(begin, end) for consecutive ranges of `grain` (last one shorter) that cover [0,
  /// count).
  void for_ranges(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& fn);

 private:
  struct Arena;
  int threads_;
  SimdLevel simd_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace cortiq
