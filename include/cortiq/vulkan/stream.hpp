// stream.hpp: commands in order on one queue. Not thread safe; use one stream per thread.
// A long job is cut into submissions of bounded length (watchdogs of desktop drivers end a
// submission after about 2 s): call account() with the arithmetic of each dispatch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cortiq/vulkan/context.hpp"

namespace cortiq::vulkan {

/// Begin and end of a submission by the device's clock, seconds since some moment that all streams share.
struct Interval {
  double begin = 0;
  double end = 0;
};

/// Device time of the commands between two marks.
struct Section {
  std::string name;
  double seconds = 0;
  std::int64_t count = 0;
};

class Stream {
 public:
  explicit Stream(std::shared_ptr<Context> context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Runs groups workgroups. Above 32768 they are laid out in two dimensions; the kernel numbers
  /// them by y * gl_NumWorkGroups.x + x and ignores those >= its own count.
  template <typename Push>
  void dispatch(const Pipeline& pipeline, const Push& push, std::uint64_t groups) {
    static_assert(std::is_trivially_copyable_v<Push> && sizeof(Push) <= 128);
    dispatch_bytes(pipeline, &push, sizeof(Push), groups);
  }
  /// All commands before are finished and visible to all after.
  void barrier();
  void copy(const Buffer& from, std::uint64_t from_offset, const Buffer& to, std::uint64_t to_offset,
            std::uint64_t bytes);
  /// bytes and offset: multiples of 4.
  void fill(const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes, std::uint32_t word);
  /// Adds to the arithmetic recorded; submits when a submission would last too long.
  void account(double flops);

  /// Starts the named section (profiling only; costs a barrier-like wait on the device).
  void section(std::string_view name);
  void enable_profile() { profile_ = true; }
  [[nodiscard]] std::vector<Section> take_profile();

  /// Submits what is recorded; returns how many submissions there were so far.
  std::uint64_t flush();
  /// Waits until that many submissions are finished. Throws Error{kDeviceLost}.
  void wait(std::uint64_t submissions);
  /// Submits and waits. Throws Error{kDeviceLost}.
  void finish();
  /// Device seconds of all finished submissions.
  [[nodiscard]] double busy_seconds() const;
  /// When the submissions since the last call ran.
  [[nodiscard]] std::vector<Interval> take_intervals();
  /// Longest submission so far, seconds.
  [[nodiscard]] double longest_submission() const;

 private:
  void dispatch_bytes(const Pipeline& pipeline, const void* push, std::size_t bytes,
                      std::uint64_t groups);
  struct State;
  std::unique_ptr<State> state_;
  bool profile_ = false;
};

}  // namespace cortiq::vulkan
