#include "cortiq/support/parallel.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <optional>

#include "cortiq/support/error.hpp"

#if defined(__SANITIZE_THREAD__)
#define CORTIQ_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CORTIQ_TSAN 1
#endif
#endif

namespace cortiq {

struct Pool::Arena {
  explicit Arena(int threads) : arena(threads) {
    // oneTBB starts no more workers than there are cores unless it is told so.
    if (threads > tbb::info::default_concurrency()) {
      limit.emplace(tbb::global_control::max_allowed_parallelism,
                    static_cast<std::size_t>(threads));
    }
  }
  std::optional<tbb::global_control> limit;
  tbb::task_arena arena;
};

Pool::Pool(int threads, SimdLevel simd)
    : threads_(threads > 0 ? threads : std::max(1, tbb::info::default_concurrency())),
      simd_(std::min(simd, detect_simd())),
      arena_(std::make_unique<Arena>(threads_)) {}

Pool::~Pool() = default;

namespace {

/// Keeps the exception of the lowest index, so that the message does not depend on scheduling.
class FirstError {
 public:
  [[nodiscard]] bool skips(std::int64_t index) const noexcept {
    return index > lowest_.load(std::memory_order_relaxed);
  }
  void record(std::int64_t index) noexcept {
    const std::lock_guard lock(mutex_);
    if (index < lowest_.load(std::memory_order_relaxed)) {
      lowest_.store(index, std::memory_order_relaxed);
      error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<std::int64_t> lowest_{std::numeric_limits<std::int64_t>::max()};
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// oneTBB is not built with the thread sanitizer, which therefore cannot see that a task begins
/// after what its caller did before and ends before what its caller does next. This says so in that
/// build, so that the tasks' own races can be told from it; elsewhere it is nothing.
class HandOver {
 public:
#ifdef CORTIQ_TSAN
  void before_tasks() noexcept { begin_.store(1, std::memory_order_release); }
  void enter_task() noexcept { (void)begin_.load(std::memory_order_acquire); }
  void leave_task() noexcept { end_.fetch_add(1, std::memory_order_release); }
  void after_tasks() noexcept { (void)end_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> begin_{0};
  std::atomic<int> end_{0};
#else
  void before_tasks() noexcept {}
  void enter_task() noexcept {}
  void leave_task() noexcept {}
  void after_tasks() noexcept {}
#endif
};

}  // namespace

void Pool::for_each(std::int64_t count, const std::function<void(std::int64_t)>& fn) {
  if (count <= 0) return;
  if (count == 1 || threads_ == 1) {
    for (std::int64_t i = 0; i < count; ++i) fn(i);
    return;
  }
  FirstError first;
  HandOver edges;
  const auto body = [&](const tbb::blocked_range<std::int64_t>& range) {
    edges.enter_task();
    for (std::int64_t i = range.begin(); i < range.end() && !first.skips(i); ++i) {
      try {
        fn(i);
      } catch (...) {
        first.record(i);
      }
    }
    edges.leave_task();
  };
  edges.before_tasks();
  try {
    arena_->arena.execute([&] {
      // Isolated: a worker that waits here must not pick up an unrelated outer task.
      tbb::this_task_arena::isolate([&] {
        tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, count, 1), body,
                          tbb::simple_partitioner{});
      });
    });
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // not of the tasks: those are kept in `first`
    fail(ErrorKind::kIo,
         "{} threads cannot be started: {}; give fewer with --threads (1 starts none), or raise the limit on "
         "processes (ulimit -u)",
         threads_, error.what());
  }
  edges.after_tasks();
  first.rethrow();
}

void Pool::for_ranges(std::int64_t count, std::int64_t grain,
                      const std::function<void(std::int64_t, std::int64_t)>& fn) {
  const std::int64_t step = std::max<std::int64_t>(grain, 1);
  for_each((count + step - 1) / step,
           [&](std::int64_t i) { fn(i * step, std::min(count, (i + 1) * step)); });
}

}  // namespace cortiq
