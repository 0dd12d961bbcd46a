#include "card.hpp"

#include <algorithm>

namespace cortiq::device {

namespace {

/// Part of the free device memory that groups may use: drivers and desktops want some.
std::uint64_t shareable(std::uint64_t available) { return available / 20 * 19; }

Path path_of(const vulkan::Context& context, const BackendOptions& options) {
  return !options.plain_products && Engine::cooperative_possible(context) ? Path::kCooperative : Path::kPlain;
}

}  // namespace

Card::Card(std::shared_ptr<vulkan::Context> context, const BackendOptions& options)
    : name_(context->adapter().name),
      engine_(context, path_of(*context, options)),
      slots_(std::max(1, options.in_flight), shareable(context->bytes_available())) {}

Card::Borrowed::Borrowed(Card& card) : card_(card) {
  {
    const std::lock_guard lock(card.mutex_);
    if (!card.idle_.empty()) {
      stream_ = std::move(card.idle_.back());
      card.idle_.pop_back();
    }
  }
  if (!stream_) stream_ = std::make_unique<vulkan::Stream>(card.engine_.shared_context());
}

Card::Borrowed::~Borrowed() {
  const std::lock_guard lock(card_.mutex_);
  const auto intervals = stream_->take_intervals();
  card_.intervals_.insert(card_.intervals_.end(), intervals.begin(), intervals.end());
  if (reusable_) card_.idle_.push_back(std::move(stream_));
}

double Card::busy_seconds() const {
  std::vector<vulkan::Interval> sorted;
  {
    const std::lock_guard lock(mutex_);
    sorted = intervals_;
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  double busy = 0;
  double covered = sorted.empty() ? 0 : sorted.front().begin;
  for (const vulkan::Interval& interval : sorted) {
    if (interval.end <= covered) continue;
    busy += interval.end - std::max(covered, interval.begin);
    covered = interval.end;
  }
  return busy;
}

}  // namespace cortiq::device
