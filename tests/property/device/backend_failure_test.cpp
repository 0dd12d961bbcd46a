// A device that fails, or has too little memory, costs time and one warning, never a result: the host's bytes come instead.
#include <functional>

#include "backend_fixture.hpp"

namespace cortiq::device::test {
namespace {

using Inject = void (DeviceBackend::*)(int);

gptq::SweepOptions polished() {
  gptq::SweepOptions options;
  options.polish = 1;
  options.debias = true;
  return options;
}

class FailureTest : public BackendTest {
 protected:
  /// Fails the first, second… allocation or submission of the fold (or of the sweep), each time of a fresh backend, until
  /// one run has none left to fail. Returns how many points there were.
  int fail_everywhere(Inject inject, bool in_sweep) {
    const Group group(96, {24, 8}, 1);
    const Payloads host = run(*host_, group, polished());
    for (int point = 0; point < 100; ++point) {
      SCOPED_TRACE(point);
      const auto backend = make();
      if (!in_sweep) ((*backend).*inject)(point);
      const auto factor = backend->fold(group.h.view(), fold_options(polished()));
      if (in_sweep) ((*backend).*inject)(point);
      const auto results = backend->sweep_group(group.jobs(polished()), group.h.view(), *factor);
      const BackendUse use = backend->use();
      EXPECT_EQ(use.device_groups + use.host_groups, 1);
      if (use.host_groups == 0) {
        EXPECT_TRUE(warnings().empty());
        return point;
      }
      EXPECT_EQ(payloads_of(results), host);
      EXPECT_EQ(warnings().size(), 1U);
      EXPECT_EQ(use.host_reasons.size(), 1U);
      EXPECT_EQ(factor->backend == "host", !factor->note.empty());
      if (HasFailure()) return point;
    }
    ADD_FAILURE() << "no end of points to fail at";
    return 0;
  }
};

TEST_F(FailureTest, out_of_memory_at_any_allocation_of_the_fold_moves_the_group_to_the_host) {
  EXPECT_GE(fail_everywhere(&DeviceBackend::inject_out_of_memory, false), 10);
}

TEST_F(FailureTest, out_of_memory_at_any_allocation_of_the_sweep_moves_the_group_to_the_host) {
  EXPECT_GE(fail_everywhere(&DeviceBackend::inject_out_of_memory, true), 3);
}

TEST_F(FailureTest, a_device_lost_at_any_submission_of_the_fold_leaves_the_group_to_the_host) {
  EXPECT_GE(fail_everywhere(&DeviceBackend::inject_device_lost, false), 3);
}

TEST_F(FailureTest, a_device_lost_at_any_submission_of_the_sweep_leaves_the_group_to_the_host) {
  EXPECT_GE(fail_everywhere(&DeviceBackend::inject_device_lost, true), 5);
}

TEST_F(FailureTest, after_a_lost_device_the_whole_run_is_done_on_the_host_with_one_warning) {
  const auto backend = make();
  const Group group(96, {16}, 2);
  const Payloads host = run(*host_, group, {});
  backend->inject_device_lost(2);
  for (int round = 0; round < 4; ++round) EXPECT_EQ(run(*backend, group, {}), host);
  EXPECT_EQ(backend->use().device_groups, 0);
  EXPECT_EQ(backend->use().host_groups, 4);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings().front().find("the rest of the run is done on the host"), std::string::npos);
}

TEST_F(FailureTest, after_an_allocation_failure_the_next_group_is_done_on_the_device_again) {
  const auto backend = make();
  const Group group(96, {16}, 2);
  backend->inject_out_of_memory(1);
  (void)run(*backend, group, {});
  EXPECT_EQ(backend->use().host_groups, 1);
  const Payloads second = run(*backend, group, {});
  EXPECT_EQ(backend->use().device_groups, 1);
  EXPECT_EQ(second, run(*make(), group, {}));
}

TEST_F(FailureTest, a_device_lost_while_several_groups_are_in_flight_costs_one_warning) {
  const auto backend = make();
  std::vector<Group> groups;
  std::vector<Payloads> host, found(6);
  for (std::uint32_t g = 0; g < 6; ++g) {
    groups.emplace_back(96, std::vector<std::int64_t>{16}, g);
    host.push_back(run(*host_, groups.back(), {}));
  }
  const std::vector<Payloads> device = [&] {
    std::vector<Payloads> list;
    const auto healthy = make();
    for (const Group& group : groups) list.push_back(run(*healthy, group, {}));
    return list;
  }();
  MemoryLog log;
  const auto failing = make_device_backend(choice_, {.cache_folder = kernel_cache(), .in_flight = 3}, pool_, log);
  failing->inject_device_lost(12);
  Pool threads(4);
  threads.for_each(6, [&](std::int64_t g) {
    found[static_cast<std::size_t>(g)] = run(*failing, groups[static_cast<std::size_t>(g)], {});
  });
  for (std::size_t g = 0; g < 6; ++g) EXPECT_TRUE(found[g] == host[g] || found[g] == device[g]) << g;
  EXPECT_EQ(failing->use().device_groups + failing->use().host_groups, 6);
  EXPECT_GE(failing->use().host_groups, 1);
  EXPECT_EQ(log.lines.size(), 1U);
}

TEST_F(FailureTest, too_little_device_memory_sends_a_group_to_the_host_and_says_so) {
  const auto backend = make(std::uint64_t{1} << 20U);
  const Group group(320, {8}, 3);
  const auto factor = backend->fold(group.h.view(), fold_options({}));
  EXPECT_EQ(factor->backend, "host");
  EXPECT_NE(factor->note.find("MB"), std::string::npos) << factor->note;
  EXPECT_EQ(payloads_of(backend->sweep_group(group.jobs({}), group.h.view(), *factor)), run(*host_, group, {}));
  EXPECT_EQ(backend->use().host_groups, 1);
  EXPECT_EQ(backend->use().host_reasons.front(), factor->note);
  EXPECT_TRUE(warnings().empty());  // a decision, not a failure
}

TEST_F(FailureTest, codecs_that_the_device_does_not_sweep_go_to_the_host_with_the_reason) {
  const auto backend = make();
  const Group group(96, {8}, 4);
  const auto factor = backend->fold(group.h.view(), {.lambda = 0.01, .host_only = true});
  EXPECT_EQ(factor->backend, "host");
  EXPECT_EQ(backend->use().host_reasons, std::vector<std::string>{"what is asked for its codec is done on the host"});
}

}  // namespace
}  // namespace cortiq::device::test
