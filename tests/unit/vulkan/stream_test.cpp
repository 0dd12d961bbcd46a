#include "vulkan_fixture.hpp"

namespace cortiq::vulkan {
namespace {

/// As in shaders/test/workgroup_mark.comp.
struct MarkPush {
  std::uint64_t marks;
  std::uint32_t count;
  std::uint32_t padding;
};

class StreamTest : public test::VulkanTest {
 protected:
  const Pipeline& mark_kernel(std::uint32_t threads = 32, std::uint32_t value = 7) {
    const std::uint32_t constants[2] = {threads, value};
    return context_->pipeline(Kernel::kWorkgroupMark, constants);
  }
  /// Runs `groups` workgroups of which `count` shall do something; returns the marks.
  std::vector<std::uint32_t> run(Stream& stream, const Pipeline& kernel, std::uint32_t count, std::uint64_t groups) {
    const Buffer marks = context_->allocate(4 * (std::uint64_t{count} + 3), MemoryKind::kDevice);
    stream.fill(marks, 0, marks.bytes(), 0);
    stream.barrier();
    stream.dispatch(kernel, MarkPush{marks.address(), count, 0}, groups);
    return read(stream, marks);
  }
};

TEST_F(StreamTest, fills_and_copies_touch_their_range_alone) {
  Stream stream(context_);
  const Buffer a = context_->allocate(64, MemoryKind::kDevice);
  const Buffer b = context_->allocate(64, MemoryKind::kDevice);
  stream.fill(a, 0, 64, 1);
  stream.fill(b, 0, 64, 2);
  stream.barrier();
  stream.fill(a, 8, 12, 0xDEADBEEF);
  stream.barrier();
  stream.copy(a, 4, b, 32, 20);
  const auto words = read(stream, b);
  const std::vector<std::uint32_t> expected{2, 2, 2, 2, 2, 2, 2, 2, 1, 0xDEADBEEF, 0xDEADBEEF, 0xDEADBEEF, 1, 2, 2, 2};
  EXPECT_EQ(words, expected);
}

TEST_F(StreamTest, what_the_host_writes_arrives_and_comes_back) {
  Stream stream(context_);
  constexpr std::uint32_t kWords = 100003;
  const Buffer upload = context_->allocate(4 * kWords, MemoryKind::kUpload);
  const Buffer device = context_->allocate(4 * kWords, MemoryKind::kDevice);
  for (std::uint32_t round = 0; round < 3; ++round) {
    std::vector<std::uint32_t> sent(kWords);
    for (std::uint32_t i = 0; i < kWords; ++i) sent[i] = i * 2654435761U + round;
    std::memcpy(upload.mapped(), sent.data(), 4 * kWords);
    stream.copy(upload, 0, device, 0, 4 * kWords);
    EXPECT_EQ(read(stream, device), sent);
  }
}

TEST_F(StreamTest, every_workgroup_of_a_large_dispatch_runs_once) {
  Stream stream(context_);
  for (const std::uint32_t count : {1U, 32767U, 32768U, 32769U, 100000U}) {
    const auto marks = run(stream, mark_kernel(), count, count);
    for (std::uint32_t g = 0; g < count; ++g) ASSERT_EQ(marks[g], 1U) << g << " of " << count;
    EXPECT_EQ(marks[count], 7U);
    EXPECT_EQ(marks[count + 2], 0U);
  }
}

TEST_F(StreamTest, workgroups_beyond_the_count_do_nothing_and_none_at_all_is_fine) {
  Stream stream(context_);
  const auto marks = run(stream, mark_kernel(), 5, 70000);
  EXPECT_EQ(std::vector<std::uint32_t>(marks.begin(), marks.begin() + 5), std::vector<std::uint32_t>(5, 1));
  EXPECT_EQ(marks[7], 0U);
  EXPECT_EQ(run(stream, mark_kernel(), 4, 0), std::vector<std::uint32_t>(7, 0));
}

TEST_F(StreamTest, dispatches_with_barriers_see_each_others_results) {
  Stream stream(context_);
  const Buffer marks = context_->allocate(4 * 12, MemoryKind::kDevice);
  stream.fill(marks, 0, marks.bytes(), 0);
  for (int i = 0; i < 50; ++i) {
    stream.barrier();
    stream.dispatch(mark_kernel(), MarkPush{marks.address(), 10, 0}, 10);
    if (i % 7 == 0) stream.flush();
  }
  const auto words = read(stream, marks);
  for (std::size_t g = 0; g < 10; ++g) EXPECT_EQ(words[g], 50U);
}

TEST_F(StreamTest, constants_reach_the_kernel_and_equal_ones_share_a_pipeline) {
  Stream stream(context_);
  const auto marks = run(stream, mark_kernel(64, 99), 3, 3);
  EXPECT_EQ(marks[3], 99U);
  EXPECT_EQ(marks[4], 64U);
  EXPECT_EQ(&mark_kernel(64, 99), &mark_kernel(64, 99));
  EXPECT_NE(&mark_kernel(64, 99), &mark_kernel(64, 98));
}

TEST_F(StreamTest, sections_and_busy_time_are_measured_by_the_devices_clock) {
  if (!adapter_->timestamps) GTEST_SKIP() << "this device has no clock";
  Stream stream(context_);
  stream.enable_profile();
  const Buffer marks = context_->allocate(4 * 40002, MemoryKind::kDevice);
  for (int round = 0; round < 2; ++round) {
    stream.section("fill");
    stream.fill(marks, 0, marks.bytes(), 0);
    stream.barrier();
    stream.section("marks");
    stream.dispatch(mark_kernel(), MarkPush{marks.address(), 40000, 0}, 40000);
    stream.barrier();
  }
  stream.finish();
  const auto profile = stream.take_profile();
  ASSERT_EQ(profile.size(), 2U);
  EXPECT_EQ(profile[0].name, "fill");
  EXPECT_EQ(profile[1].name, "marks");
  EXPECT_EQ(profile[1].count, 2);
  EXPECT_GT(profile[1].seconds, 0);
  EXPECT_GE(stream.busy_seconds() * (1 + 1e-9), profile[0].seconds + profile[1].seconds);  // sums round
  EXPECT_LE(stream.longest_submission(), stream.busy_seconds());
  EXPECT_TRUE(stream.take_profile().empty());
}

TEST_F(StreamTest, long_jobs_are_cut_into_submissions) {
  Stream stream(context_);
  const Buffer marks = context_->allocate(64, MemoryKind::kDevice);
  for (int i = 0; i < 4; ++i) {
    stream.fill(marks, 0, 64, 1);
    stream.account(1e15);  // more than any device does in a submission's time
  }
  EXPECT_EQ(stream.flush(), 4U);
  stream.fill(marks, 0, 64, 2);
  const std::uint64_t last = stream.flush();
  EXPECT_EQ(last, 5U);
  stream.wait(last);
  EXPECT_EQ(stream.flush(), 5U);  // nothing recorded, nothing submitted
}

TEST_F(StreamTest, a_lost_device_is_named_at_its_submission_and_the_stream_can_be_dropped) {
  Stream stream(context_);
  const Buffer marks = context_->allocate(64, MemoryKind::kDevice);
  context_->inject_device_lost(1);
  stream.fill(marks, 0, 64, 1);
  stream.finish();
  stream.fill(marks, 0, 64, 1);
  EXPECT_EQ(error_of([&] { stream.finish(); }), ErrorKind::kDeviceLost);
  EXPECT_NE(message_.find("VK_ERROR_DEVICE_LOST"), std::string::npos);
}

TEST_F(StreamTest, streams_of_several_threads_do_not_disturb_each_other) {
  constexpr int kStreams = 6;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Buffer> buffers;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<Stream>(context_));
    buffers.push_back(context_->allocate(4 * 1002, MemoryKind::kDevice));
  }
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (round == 0) streams[i]->fill(buffers[i], 0, buffers[i].bytes(), 0);
      streams[i]->barrier();
      streams[i]->dispatch(mark_kernel(), MarkPush{buffers[i].address(), 1000, 0}, 1000);
      streams[i]->flush();
    }
  }
  for (std::size_t i = 0; i < kStreams; ++i) {
    const auto words = read(*streams[i], buffers[i]);
    for (std::size_t g = 0; g < 1000; ++g) ASSERT_EQ(words[g], 5U);
  }
}

}  // namespace
}  // namespace cortiq::vulkan
