#include "cortiq/vulkan/stream.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "state.hpp"

namespace cortiq::vulkan {

namespace {

constexpr double kSubmissionSeconds = 0.1;     // aim; the design allows 0.2
constexpr std::size_t kMostInFlight = 8;
constexpr std::uint64_t kRowGroups = 32768;    // workgroups of one line of a dispatch
constexpr std::uint32_t kMostMarks = 2048;     // timestamps of one submission
constexpr std::uint64_t kWaitNanoseconds = 1'000'000'000;  // of one look at a submission
constexpr int kWaits = 60;                                 // together longer than any watchdog

constexpr VkAccessFlags kAccess = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_SHADER_READ_BIT |
                                  VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT;

/// All work before and after; `before` and `after` add what the host does.
VkMemoryBarrier full_barrier(VkAccessFlags before, VkAccessFlags after) {
  return {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, kAccess | before, kAccess | after};
}

constexpr VkPipelineStageFlags kWork =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

}  // namespace

/// One submission: its commands, fence, and timestamps (first = begin, last = end).
struct Submission {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  VkQueryPool marks = VK_NULL_HANDLE;
  std::uint32_t mark_count = 0;
  std::vector<std::string> names;  ///< section that begins at mark i
  double flops = 0;
};

struct Stream::State {
  explicit State(std::shared_ptr<Context> owner)
      : context(std::move(owner)), device(context->state()), api(device.api) {
    slot = device.queues[device.next_queue++ % device.queues.size()].get();
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = device.family;
    check(api.CreateCommandPool(device.device, &info, nullptr, &pool), "command pool");
  }
  ~State() {
    while (!flying.empty()) {
      if (!ended(flying.front())) return;  // the device may still use what would be destroyed here
      idle.push_back(std::move(flying.front()));
      flying.pop_front();
    }
    if (recording) idle.push_back(std::move(current));
    for (const Submission& s : idle) {
      api.DestroyFence(device.device, s.fence, nullptr);
      if (s.marks != VK_NULL_HANDLE) api.DestroyQueryPool(device.device, s.marks, nullptr);
    }
    api.DestroyCommandPool(device.device, pool, nullptr);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Submission make_submission();
  VkCommandBuffer begin();
  void mark(std::string name);
  void submit();
  void retire();
  void wait_for_oldest();
  /// Waits; false: it hangs, now or in another stream.
  [[nodiscard]] bool ended(const Submission& s);

  std::shared_ptr<Context> context;
  Context::State& device;
  const DeviceApi& api;
  QueueSlot* slot = nullptr;
  VkCommandPool pool = VK_NULL_HANDLE;
  Submission current;
  bool recording = false;
  std::string section_name;
  std::deque<Submission> flying;
  std::vector<Submission> idle;
  std::uint64_t submitted = 0;
  std::uint64_t retired = 0;
  std::vector<Interval> intervals;
  double busy = 0;
  double longest = 0;
  std::map<std::string, Section> profile;
};

Submission Stream::State::make_submission() {
  if (!idle.empty()) {
    Submission s = std::move(idle.back());
    idle.pop_back();
    s.names.clear();
    s.mark_count = 0;
    s.flops = 0;
    return s;
  }
  Submission s;
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  check(api.AllocateCommandBuffers(device.device, &info, &s.commands), "command buffer");
  const VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, nullptr, 0};
  check(api.CreateFence(device.device, &fence, nullptr, &s.fence), "fence");
  if (device.timestamp_seconds > 0) {
    VkQueryPoolCreateInfo queries{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
    queries.queryCount = kMostMarks;
    check(api.CreateQueryPool(device.device, &queries, nullptr, &s.marks), "query pool");
  }
  return s;
}

VkCommandBuffer Stream::State::begin() {
  if (recording) return current.commands;
  current = make_submission();
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(api.BeginCommandBuffer(current.commands, &info), "recording");
  recording = true;
  if (current.marks != VK_NULL_HANDLE)
    api.CmdResetQueryPool(current.commands, current.marks, 0, kMostMarks);
  // Earlier submissions of this queue and the host's writes come first.
  const VkMemoryBarrier barrier = full_barrier(VK_ACCESS_HOST_WRITE_BIT, 0);
  api.CmdPipelineBarrier(current.commands, kWork | VK_PIPELINE_STAGE_HOST_BIT, kWork, 0, 1, &barrier,
                         0, nullptr, 0, nullptr);
  mark(section_name);
  return current.commands;
}

void Stream::State::mark(std::string name) {
  if (current.marks == VK_NULL_HANDLE || current.mark_count == kMostMarks) return;
  api.CmdWriteTimestamp(current.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, current.marks,
                        current.mark_count++);
  current.names.push_back(std::move(name));
}

void Stream::State::submit() {
  if (!recording) return;
  const VkMemoryBarrier barrier = full_barrier(0, VK_ACCESS_HOST_READ_BIT);
  api.CmdPipelineBarrier(current.commands, kWork, kWork | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                         0, nullptr, 0, nullptr);
  if (current.mark_count == kMostMarks) --current.mark_count;  // keep room for the end
  mark("");
  check(api.EndCommandBuffer(current.commands), "recording");
  recording = false;
  Submission s = std::move(current);
  current = {};
  check(api.ResetFences(device.device, 1, &s.fence), "fence");
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &s.commands;
  VkResult result = VK_SUCCESS;
  if (injected(device.fail_submission)) {
    result = VK_ERROR_DEVICE_LOST;
  } else {
    const std::lock_guard lock(slot->mutex);
    result = api.QueueSubmit(slot->queue, 1, &info, s.fence);
  }
  if (result < 0) {
    idle.push_back(std::move(s));
    fail_result(result, "submission");
  }
  flying.push_back(std::move(s));
  ++submitted;
  retire();
  while (flying.size() > kMostInFlight) wait_for_oldest();
}

/// Reads the times of finished submissions.
void Stream::State::retire() {
  while (!flying.empty()) {
    Submission& s = flying.front();
    const VkResult status = api.GetFenceStatus(device.device, s.fence);
    check(status, "submission");
    if (status == VK_NOT_READY) return;
    if (s.mark_count >= 2) {
      std::vector<std::uint64_t> ticks(s.mark_count);
      check(api.GetQueryPoolResults(device.device, s.marks, 0, s.mark_count, 8 * ticks.size(),
                                    ticks.data(), 8,
                                    VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
            "timestamps");
      const auto seconds = [&](std::size_t a, std::size_t b) {
        return ticks[b] > ticks[a] ? static_cast<double>(ticks[b] - ticks[a]) * device.timestamp_seconds
                                   : 0.0;
      };
      const double total = seconds(0, ticks.size() - 1);
      busy += total;
      const double begin_seconds = static_cast<double>(ticks.front()) * device.timestamp_seconds;
      intervals.push_back({begin_seconds, begin_seconds + total});
      longest = std::max(longest, total);
      if (s.flops > 1e9 && total > 1e-4) device.flops_per_second = s.flops / total;
      for (std::size_t i = 0; i + 1 < ticks.size(); ++i) {
        if (s.names[i].empty()) continue;
        Section& section = profile[s.names[i]];
        section.name = s.names[i];
        section.seconds += seconds(i, i + 1);
        ++section.count;
      }
    }
    idle.push_back(std::move(s));
    flying.pop_front();
    ++retired;
  }
}

bool Stream::State::ended(const Submission& s) {
  for (int i = 0; i < kWaits && !device.hung; ++i) {
    const VkResult result = api.WaitForFences(device.device, 1, &s.fence, VK_TRUE, kWaitNanoseconds);
    if (result == VK_SUCCESS || result < 0) return true;  // lost counts as ended: nothing runs any more
  }
  device.hung = true;
  return false;
}

void Stream::State::wait_for_oldest() {
  if (!ended(flying.front())) {
    fail(ErrorKind::kDeviceLost, "device {}: a submission did not end within {} s",
         device.adapter.name, kWaits);
  }
  check(api.GetFenceStatus(device.device, flying.front().fence), "waiting");
  retire();
}

Stream::Stream(std::shared_ptr<Context> context)
    : state_(std::make_unique<State>(std::move(context))) {}
Stream::~Stream() = default;

void Stream::dispatch_bytes(const Pipeline& pipeline, const void* push, std::size_t bytes,
                            std::uint64_t groups) {
  if (groups == 0) return;
  const VkCommandBuffer commands = state_->begin();
  const DeviceApi& api = state_->api;
  api.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle);
  api.CmdPushConstants(commands, state_->device.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       static_cast<std::uint32_t>(bytes), push);
  const std::uint64_t x = std::min(groups, kRowGroups);
  const std::uint64_t y = (groups + x - 1) / x;
  CORTIQ_ASSERT(y <= 65535);
  api.CmdDispatch(commands, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1);
}

void Stream::barrier() {
  const VkCommandBuffer commands = state_->begin();
  const VkMemoryBarrier barrier = full_barrier(0, 0);
  state_->api.CmdPipelineBarrier(commands, kWork, kWork, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void Stream::copy(const Buffer& from, std::uint64_t from_offset, const Buffer& to,
                  std::uint64_t to_offset, std::uint64_t bytes) {
  CORTIQ_ASSERT(from_offset + bytes <= from.bytes() && to_offset + bytes <= to.bytes());
  if (bytes == 0) return;
  const VkCommandBuffer commands = state_->begin();
  const VkBufferCopy region{from_offset, to_offset, bytes};
  state_->api.CmdCopyBuffer(commands, from.block().buffer, to.block().buffer, 1, &region);
}

void Stream::fill(const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes,
                  std::uint32_t word) {
  CORTIQ_ASSERT(offset + bytes <= buffer.bytes() && offset % 4 == 0 && bytes % 4 == 0);
  if (bytes == 0) return;
  const VkCommandBuffer commands = state_->begin();
  state_->api.CmdFillBuffer(commands, buffer.block().buffer, offset, bytes, word);
}

void Stream::account(double flops) {
  state_->current.flops += flops;
  if (state_->current.flops > kSubmissionSeconds * state_->device.flops_per_second) flush();
}

void Stream::section(std::string_view name) {
  if (!profile_) return;
  state_->section_name = name;
  if (state_->recording) state_->mark(std::string(name));
}

std::vector<Section> Stream::take_profile() {
  std::vector<Section> result;
  for (auto& [name, section] : state_->profile) result.push_back(section);
  state_->profile.clear();
  return result;
}

std::uint64_t Stream::flush() {
  state_->submit();
  return state_->submitted;
}

void Stream::wait(std::uint64_t submissions) {
  while (state_->retired < submissions) state_->wait_for_oldest();
}

void Stream::finish() {
  state_->submit();
  while (!state_->flying.empty()) state_->wait_for_oldest();
}

double Stream::busy_seconds() const { return state_->busy; }
std::vector<Interval> Stream::take_intervals() { return std::exchange(state_->intervals, {}); }
double Stream::longest_submission() const { return state_->longest; }

}  // namespace cortiq::vulkan
