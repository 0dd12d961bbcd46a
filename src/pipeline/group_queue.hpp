// group_queue.hpp: which group a free worker takes next, so that the groups at work stay within a
// number of bytes. Nobody waits: a worker that finds nothing that fits leaves, and the one that
// frees the memory comes back for the rest.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace cortiq::pipeline {

class GroupQueue {
 public:
  /// @param needs  bytes of each group   @param limit  of all that are at work together; a group
  /// that needs more is taken when nothing else is at work
  GroupQueue(std::vector<std::uint64_t> needs, std::uint64_t limit);

  /// Of the groups left that fit beside those at work, the one that needs most: it takes longest.
  /// Thread safe.
  [[nodiscard]] std::optional<std::size_t> next();
  void done(std::size_t group);
  /// Most bytes that were at work together.
  [[nodiscard]] std::uint64_t peak() const { return peak_; }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> needs_;
  std::vector<std::size_t> order_;  ///< by need, descending
  std::vector<char> taken_;         ///< by place in order_
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t peak_ = 0;
  std::size_t first_left_ = 0;
  std::size_t at_work_ = 0;
};

}  // namespace cortiq::pipeline
