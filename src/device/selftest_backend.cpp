// selftest_backend.cpp: P35 through the backend: groups one by one, and several in flight from several threads.
#include "selftest_checks.hpp"

namespace cortiq::device {

namespace {

constexpr std::int64_t kGroups = 6;
constexpr int kThreads = 4;
constexpr std::int64_t kRows = 96;

using Payloads = std::vector<std::vector<std::byte>>;

/// Folds and sweeps the groups; two tensors each.
Payloads run_groups(gptq::Backend& backend, const std::vector<SelftestProblem>& problems, Pool& threads) {
  Payloads payloads(2 * problems.size());
  threads.for_each(static_cast<std::int64_t>(problems.size()), [&](std::int64_t g) {
    const auto index = static_cast<std::size_t>(g);
    const SelftestProblem& problem = problems[index];
    const auto factor = backend.fold(problem.hessian(), {.keep_damped = true});
    gptq::SweepOptions options;
    options.target = g % 2 == 0 ? gptq::Target::kQ4tp : gptq::Target::kQ2tp;
    options.polish = 1;
    const ConstMatrixView<float> w = problem.weights();
    const gptq::SweepJob jobs[2] = {{"first", w.block(0, 0, kRows / 2, problem.n), options},
                                    {"second", w.block(kRows / 2, 0, kRows / 2, problem.n), options}};
    auto results = backend.sweep_group(jobs, problem.hessian(), *factor);
    for (std::size_t t = 0; t < 2; ++t) payloads[2 * index + t] = std::move(results[t].payload);
  });
  return payloads;
}

}  // namespace

void check_groups_in_flight(const DeviceInfo& device, const BackendOptions& options, Pool& pool, Log& log,
                            SelftestReport& report) {
  std::vector<SelftestProblem> problems;
  for (std::int64_t g = 0; g < kGroups; ++g) {
    const std::int64_t n = 160 + 96 * (g % 3);
    problems.push_back(make_selftest_problem({.rows = kRows, .n = n, .samples = 2 * n, .seed = static_cast<std::uint64_t>(g + 1)}, pool));
  }
  BackendOptions one_by_one = options, together = options;
  one_by_one.in_flight = 1;
  together.in_flight = 3;
  Pool one(1), several(kThreads);
  const auto backend = make_device_backend({{device}, "selftest"}, one_by_one, pool, log);
  const Payloads expected = run_groups(*backend, problems, one);
  const auto parallel = make_device_backend({{device}, "selftest"}, together, pool, log);
  const Payloads found = run_groups(*parallel, problems, several);
  std::int64_t different = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) different += expected[i] != found[i] ? 1 : 0;
  report.lines.push_back({"backend", fmt::format("P35: tensors that {} groups at once change, of {}", together.in_flight, expected.size()),
                          static_cast<double>(different), 0, false});
  const auto on_host = backend->use().host_groups + parallel->use().host_groups;
  report.lines.push_back({"backend", "groups that the device did not take", static_cast<double>(on_host), 0, false});
}

}  // namespace cortiq::device
