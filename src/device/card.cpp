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
  busy_before_ = stream_->busy_seconds();
}

Card::Borrowed::~Borrowed() {
  const std::lock_guard lock(card_.mutex_);
  card_.busy_ += stream_->busy_seconds() - busy_before_;
  if (reusable_) card_.idle_.push_back(std::move(stream_));
}

double Card::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

}  // namespace cortiq::device
