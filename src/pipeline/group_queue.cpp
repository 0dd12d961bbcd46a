#include "group_queue.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cortiq::pipeline {

GroupQueue::GroupQueue(std::vector<std::uint64_t> needs, std::uint64_t limit)
    : needs_(std::move(needs)), order_(needs_.size()), taken_(needs_.size(), 0), limit_(limit) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return needs_[a] > needs_[b]; });
}

std::optional<std::size_t> GroupQueue::next() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = first_left_; i < needs_.size(); ++i) {
    if (taken_[i] != 0) continue;
    const std::uint64_t need = needs_[order_[i]];
    const bool fits = need <= limit_ && used_ <= limit_ - need;
    if (!fits && at_work_ > 0) continue;
    taken_[i] = 1;
    ++at_work_;
    used_ += need;
    peak_ = std::max(peak_, used_);
    while (first_left_ < taken_.size() && taken_[first_left_] != 0) ++first_left_;
    return order_[i];
  }
  return std::nullopt;
}

void GroupQueue::done(std::size_t group) {
  const std::lock_guard lock(mutex_);
  used_ -= needs_[group];
  --at_work_;
}

}  // namespace cortiq::pipeline
