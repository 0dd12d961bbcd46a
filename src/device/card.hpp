// card.hpp: one opened device of the backend: its engine, its slots, streams for reuse, and whether it still works.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cortiq/device/devices.hpp"
#include "engine.hpp"
#include "slots.hpp"

namespace cortiq::device {

class Card {
 public:
  Card(std::shared_ptr<vulkan::Context> context, const BackendOptions& options);

  [[nodiscard]] const Engine& engine() const { return engine_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Slots& slots() { return slots_; }
  [[nodiscard]] bool lost() const { return lost_; }
  void set_lost() { lost_ = true; }

  /// A stream that returns to the card; after an error it is dropped instead (its state is unknown).
  class Borrowed {
   public:
    explicit Borrowed(Card& card);
    ~Borrowed();
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    [[nodiscard]] vulkan::Stream& stream() { return *stream_; }
    void done() { reusable_ = true; }

   private:
    Card& card_;
    std::unique_ptr<vulkan::Stream> stream_;
    bool reusable_ = false;
  };

  /// Time during which at least one submission was running.
  [[nodiscard]] double busy_seconds() const;

 private:
  std::string name_;
  Engine engine_;
  Slots slots_;
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<vulkan::Stream>> idle_;
  std::vector<vulkan::Interval> intervals_;
};

}  // namespace cortiq::device
