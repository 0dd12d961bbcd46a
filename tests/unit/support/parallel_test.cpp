#include "cortiq/support/parallel.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cortiq/support/error.hpp"

namespace cortiq {
namespace {

class PoolOfThreads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, PoolOfThreads, ::testing::Values(1, 2, 3, 16));

TEST_P(PoolOfThreads, CallsEachIndexExactlyOnce) {
  Pool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count) + 1);
    pool.for_each(count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(calls[static_cast<std::size_t>(i)], 1);
    ASSERT_EQ(calls.back(), 0);
  }
}

TEST_P(PoolOfThreads, RethrowsTheExceptionOfTheLowestIndex) {
  Pool pool(GetParam());
  for (int repeat = 0; repeat < 20; ++repeat) {
    try {
      pool.for_each(200, [](std::int64_t i) {
        if (i % 7 == 3) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "3");
    }
  }
}

TEST_P(PoolOfThreads, WorksOnAfterAnException) {
  Pool pool(GetParam());
  EXPECT_THROW(pool.for_each(10, [](std::int64_t) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  std::atomic<std::int64_t> sum{0};
  pool.for_each(10, [&](std::int64_t i) { sum += i; });
  EXPECT_EQ(sum, 45);
}

TEST_P(PoolOfThreads, NestedLoopsShareTheWorkers) {
  Pool pool(GetParam());
  std::vector<std::atomic<int>> cells(20 * 30);
  pool.for_each(20, [&](std::int64_t i) {
    pool.for_each(30, [&](std::int64_t j) { ++cells[static_cast<std::size_t>(i * 30 + j)]; });
  });
  EXPECT_TRUE(std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell == 1; }));
}

TEST_P(PoolOfThreads, ExceptionOfANestedLoopReachesTheCaller) {
  Pool pool(GetParam());
  const auto nested = [&] {
    pool.for_each(4, [&](std::int64_t i) {
      pool.for_each(4, [&](std::int64_t j) {
        if (i == 2 && j >= 1) throw std::runtime_error(std::to_string(10 * i + j));
      });
    });
  };
  try {
    nested();
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "21");
  }
}

TEST_P(PoolOfThreads, RangesCoverTheCountInConsecutivePieces) {
  Pool pool(GetParam());
  for (const auto& [count, grain] :
       {std::pair<std::int64_t, std::int64_t>{0, 4}, {1, 4}, {4, 4}, {10, 4}, {10, 100}, {5, 0}}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> pieces(static_cast<std::size_t>(count));
    pool.for_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
      pieces[static_cast<std::size_t>(begin)] = {begin, end};
    });
    std::int64_t covered = 0;
    while (covered < count) {
      const auto [begin, end] = pieces[static_cast<std::size_t>(covered)];
      ASSERT_EQ(begin, covered);
      ASSERT_EQ(end, std::min(count, begin + std::max<std::int64_t>(grain, 1)));
      covered = end;
    }
  }
}

TEST(Pool, NegativeCountIsAnEmptyLoop) {
  Pool pool(2);
  pool.for_each(-3, [](std::int64_t) { FAIL(); });
  pool.for_ranges(-3, 2, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST(Pool, RunsMoreThreadsThanThereAreCores) {
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) + 2;
  Pool pool(threads);
  // Each task waits until all of them have started: with fewer workers this would time out.
  std::atomic<int> started{0};
  std::atomic<int> together{0};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.for_each(threads, [&](std::int64_t) {
    ++started;
    while (started < threads && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    if (started == threads) ++together;
  });
  EXPECT_EQ(together, threads);
}

TEST(PoolDeathTest, ThreadsThatCannotBeStartedAreAnErrorThatNamesTheOption) {
  // A process of its own, which may not start another thread.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto without_threads = [] {
    const rlimit none{1, 1};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) std::exit(3);
    // The limit does not hold for root.
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) std::exit(4);
    Pool(1).for_each(100, [](std::int64_t) {});
    try {
      Pool(4).for_each(100, [](std::int64_t) {});
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(error.kind() == ErrorKind::kIo ? 0 : 5);
    }
    std::exit(6);
  };
  EXPECT_EXIT(without_threads(), ::testing::ExitedWithCode(0), "4 threads cannot be started.*--threads");
}

TEST(Pool, DefaultUsesAtLeastOneThread) {
  const Pool pool;
  EXPECT_GE(pool.threads(), 1);
}

TEST(Pool, LowersTheInstructionSetToWhatTheProcessorHas) {
  EXPECT_EQ(Pool(1, SimdLevel::kAvx512).simd(), detect_simd());
  EXPECT_EQ(Pool(1, SimdLevel::kPortable).simd(), SimdLevel::kPortable);
}

}  // namespace
}  // namespace cortiq
