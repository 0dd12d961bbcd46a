// slots.hpp: who may use a device: a bounded number of groups at once, within its memory. A group asks once, for all that
// it will need, so that two groups never wait for each other's memory.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace cortiq::device {

class Slots {
 public:
  /// @param groups  at once, at least 1  @param bytes  of device memory to share out
  Slots(int groups, std::uint64_t bytes) : groups_(groups), bytes_(bytes) {}

  /// Given back when it is destroyed.
  class Lease {
   public:
    Lease(Slots& slots, std::uint64_t bytes) : slots_(slots), bytes_(bytes) {}
    ~Lease() { slots_.give_back(bytes_); }
    /// Adds up to `wanted` bytes, as far as nobody else has them; returns how many. Never waits.
    [[nodiscard]] std::uint64_t extend(std::uint64_t wanted) {
      const std::uint64_t granted = slots_.take_more(wanted);
      bytes_ += granted;
      return granted;
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    Slots& slots_;
    std::uint64_t bytes_;
  };

  [[nodiscard]] bool can_ever_fit(std::uint64_t bytes) const { return bytes <= bytes_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return bytes_; }
  /// Waits for its turn. bytes: can_ever_fit.
  [[nodiscard]] std::unique_ptr<Lease> acquire(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return in_use_ == 0 || (in_use_ < groups_ && used_bytes_ + bytes <= bytes_); });
    ++in_use_;
    used_bytes_ += bytes;
    return std::make_unique<Lease>(*this, bytes);
  }
  [[nodiscard]] int in_use() const {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }

 private:
  std::uint64_t take_more(std::uint64_t wanted) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t granted = std::min(wanted, bytes_ > used_bytes_ ? bytes_ - used_bytes_ : 0);
    used_bytes_ += granted;
    return granted;
  }
  void give_back(std::uint64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      --in_use_;
      used_bytes_ -= bytes;
    }
    free_.notify_all();
  }

  const int groups_;
  const std::uint64_t bytes_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  int in_use_ = 0;
  std::uint64_t used_bytes_ = 0;
};

}  // namespace cortiq::device
