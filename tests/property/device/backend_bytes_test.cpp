// The same bytes for any number of groups in flight, any stack, any run; and as good as the host.
#include "backend_fixture.hpp"
#include "cortiq/codec/decode.hpp"

namespace cortiq::device::test {
namespace {

/// As polish, debias and both targets alternate over the groups.
gptq::SweepOptions options_of(std::size_t group) {
  gptq::SweepOptions options;
  options.target = group % 2 == 0 ? gptq::Target::kQ4tp : gptq::Target::kQ2tp;
  options.polish = static_cast<int>(group % 3);
  options.debias = group % 4 == 1;
  return options;
}

TEST_F(BackendTest, groups_from_several_threads_give_the_same_bytes_as_one_by_one) {
  std::vector<Group> groups;
  for (std::uint32_t g = 0; g < 8; ++g) groups.emplace_back(96 + 64 * (g % 4), std::vector<std::int64_t>{20, 9}, g);
  std::vector<Payloads> alone, together(groups.size()), again(groups.size());
  const auto one = make(0, 1);
  for (std::size_t g = 0; g < groups.size(); ++g) alone.push_back(run(*one, groups[g], options_of(g)));
  const auto several = make(0, 3);
  Pool threads(6);
  for (auto* result : {&together, &again}) {
    threads.for_each(static_cast<std::int64_t>(groups.size()), [&](std::int64_t g) {
      const auto index = static_cast<std::size_t>(g);
      (*result)[index] = run(*several, groups[index], options_of(index));
    });
  }
  EXPECT_EQ(alone, together);
  EXPECT_EQ(alone, again);
  EXPECT_EQ(several->use().host_groups, 0);
  EXPECT_EQ(several->use().device_groups, 16);
  EXPECT_GT(several->use().peak_bytes, 0U);
}

TEST_F(BackendTest, a_stack_of_tensors_equals_single_sweeps) {
  // k of few rows, v of much smaller weights: nothing of one tensor may reach another.
  Group group(288, {70, 5, 33}, 9);
  for (float& value : group.tensors[2]) value *= 1e-3F;
  const auto backend = make();
  for (const gptq::Target target : {gptq::Target::kQ4tp, gptq::Target::kQ2tp}) {
    gptq::SweepOptions options;
    options.target = target;
    options.polish = 1;
    options.debias = true;
    const auto factor = backend->fold(group.h.view(), fold_options(options));
    const auto jobs = group.jobs(options);
    const auto stacked = backend->sweep_group(jobs, group.h.view(), *factor);
    for (std::size_t t = 0; t < jobs.size(); ++t) {
      const auto single = backend->sweep(jobs[t].w, group.h.view(), *factor, options);
      EXPECT_EQ(single.payload, stacked[t].payload) << t;
      EXPECT_NEAR(single.output_error / stacked[t].output_error, 1.0, 1e-3);
    }
  }
}

TEST_F(BackendTest, tensors_of_unlike_options_share_a_fold) {
  const Group group(160, {16, 16, 16}, 5);
  auto jobs = group.jobs({});
  jobs[1].options.target = gptq::Target::kQ2tp;
  const auto backend = make();
  const auto factor = backend->fold(group.h.view(), {.lambda = 0.01});
  const auto results = backend->sweep_group(jobs, group.h.view(), *factor);
  for (std::size_t t = 0; t < jobs.size(); ++t) {
    EXPECT_EQ(results[t].payload, backend->sweep(jobs[t].w, group.h.view(), *factor, jobs[t].options).payload) << t;
  }
  EXPECT_GT(results[0].payload.size(), results[1].payload.size());
}

TEST_F(BackendTest, sweeps_of_any_width_and_height_are_as_good_as_the_host) {
  // Few rows: a single code that falls the other way weighs up to a percent.
  constexpr double kRatio = 1.02;
  const auto backend = make();
  for (const std::int64_t n : {32, 64, 224, 256, 288, 704}) {
    for (const gptq::Order order : {gptq::Order::kNatural, gptq::Order::kGroup, gptq::Order::kAct}) {
      gptq::SweepOptions options;
      options.order = order;
      options.rung = gptq::Rung::kDiag;
      options.ladder = gptq::LadderFit::kConverter;
      const Group group(n, {1 + n % 7, 129}, static_cast<std::uint32_t>(n));
      const auto jobs = group.jobs(options);
      const auto here = host_->fold(group.h.view(), fold_options(options));
      const auto there = backend->fold(group.h.view(), fold_options(options));
      EXPECT_EQ(there->lambda_used, here->lambda_used);
      EXPECT_EQ(there->dead_channels, here->dead_channels);
      const auto host = host_->sweep_group(jobs, group.h.view(), *here);
      const auto device = backend->sweep_group(jobs, group.h.view(), *there);
      EXPECT_LT(device[1].output_error, kRatio * host[1].output_error) << "n " << n << " order " << static_cast<int>(order);
      for (std::size_t t = 0; t < 2; ++t) {
        const std::int64_t shape[2] = {jobs[t].w.rows(), n};
        std::vector<float> values(group.tensors[t].size());
        codec::RowDecoder(cmf::DType::kQ4tp, shape, device[t].payload, codec::LadderKind::kDeterministic)
            .decode_all({values.data(), jobs[t].w.rows(), n}, pool_);
        const auto truth = gptq::output_error(jobs[t].w, {values.data(), jobs[t].w.rows(), n}, group.h.view(), pool_);
        EXPECT_NEAR(device[t].output_error / truth.error, 1.0, 2e-3) << "n " << n;
        EXPECT_NEAR(device[t].output_energy / truth.energy, 1.0, 2e-3) << "n " << n;
      }
    }
  }
  EXPECT_EQ(backend->use().host_groups, 0);
}

TEST_F(BackendTest, error_of_a_tensor_that_was_not_swept_is_the_hosts) {
  const Group group(224, {50}, 6);
  const ConstMatrixView<float> e(group.tensors[0].data(), 50, 224);
  const auto backend = make();
  const auto there = backend->fold(group.h.view(), {.lambda = 0.01});
  const auto here = host_->fold(group.h.view(), {.lambda = 0.01});
  EXPECT_NEAR(backend->error_of(e, group.h.view(), *there) / host_->error_of(e, group.h.view(), *here), 1.0, 2e-3);
}

}  // namespace
}  // namespace cortiq::device::test
