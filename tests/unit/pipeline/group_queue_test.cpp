#include "../../../src/pipeline/group_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "cortiq/support/parallel.hpp"

namespace cortiq::pipeline {
namespace {

TEST(GroupQueue, the_largest_comes_first_and_smaller_ones_pass_what_does_not_fit) {
  GroupQueue queue({50, 60, 1, 40}, 100);
  EXPECT_EQ(queue.next(), 1U);
  EXPECT_EQ(queue.next(), 3U) << "50 does not fit beside 60, 40 does";
  EXPECT_FALSE(queue.next());
  queue.done(1);
  EXPECT_EQ(queue.next(), 0U);
  EXPECT_EQ(queue.next(), 2U);
  EXPECT_FALSE(queue.next());
  EXPECT_EQ(queue.peak(), 100U);
}

TEST(GroupQueue, a_group_above_the_limit_is_taken_alone) {
  GroupQueue queue({300, 10}, 100);
  EXPECT_EQ(queue.next(), 0U);
  EXPECT_FALSE(queue.next());
  queue.done(0);
  EXPECT_EQ(queue.next(), 1U);
  EXPECT_FALSE(queue.next());
}

TEST(GroupQueue, workers_that_leave_when_nothing_fits_still_finish_all_groups) {
  Pool pool(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint64_t> needs;
    for (std::uint64_t i = 0; i < 40; ++i) needs.push_back(1 + (i * 37 + 11) % 90);
    GroupQueue queue(needs, 100);
    std::atomic<std::uint64_t> used = 0;
    std::atomic<int> finished = 0;
    pool.for_each(7, [&](std::int64_t) {
      while (const auto i = queue.next()) {
        EXPECT_LE(used += needs[*i], 100U);
        ++finished;
        used -= needs[*i];
        queue.done(*i);
      }
    });
    EXPECT_EQ(finished, 40);
    EXPECT_LE(queue.peak(), 100U);
  }
}

}  // namespace
}  // namespace cortiq::pipeline
