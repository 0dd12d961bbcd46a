// The work of a GPTQ run: layer by layer, forward and Hessians, fold, sweep, write.
#include "gptq_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "cortiq/support/file.hpp"
#include "cortiq/support/memory.hpp"
#include "group_queue.hpp"

namespace cortiq::pipeline {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

RunReport GptqRun::execute() {
  const auto start = Clock::now();
  backend_.open(context_);
  report_.options["device"] = backend_.name();
  report_.options["simd"] = simd_name(context_.pool.simd());
  plan_.memory.groups_at_once = backend_.groups_at_once(plan_.memory.groups_at_once);
  planned_warnings_ = report_.warnings.size();
  open_output();
  try {
    work();
  } catch (const Error& error) {
    end_early(error);
  } catch (const std::bad_alloc&) {
    end_early(Error(ErrorKind::kOutOfMemory,
                    "out of memory; close other programs, or lower --mem-gb or --tokens"));
  }
  backend_.report(report_, context_);
  judge();
  report_.seconds = seconds_since(start);
  report_.cpu_seconds = process_cpu_seconds();
  report_.peak_memory_bytes = peak_resident_bytes();
  return std::move(report_);
}

void GptqRun::work() {
  const auto start = Clock::now();
  TensorJob job{*source_,
                *writer_,
                plan_,
                report_.tensors,
                {},
                options_.sanitize ? NonFinite::kSanitize : NonFinite::kRefuse,
                context_,
                journal_.get()};
  write_plain_tensors(job);
  for (const std::size_t index : plan_.ungrouped) {
    if (writer_->is_written(index)) continue;
    miss_tensor(job, index, "no Hessian for its input");
    journal_->finished(index, report_.tensors[index]);
  }
  time_phase("copy and round", seconds_since(start));
  if (files_.serve_all()) {
    solve_from_cache(job);
  } else if (plan_.sequential) {
    solve_sequentially(job);
  } else {
    solve_by_layers(job);
  }
  finish();
}

void GptqRun::solve_by_layers(TensorJob& job) {
  const std::int64_t last = last_open_layer();
  if (plan_.memory.spill_hidden) open_spilling_forward();
  const model::Windows& windows = input_->corpus.windows;
  const auto start = Clock::now();
  if (last >= 0) {
    model::HiddenStates states = forward_->embed(windows);
    time_phase("forward and Hessians", seconds_since(start));
    for (std::int64_t layer = 0; layer <= last; ++layer) {
      run_one_layer(job, layer, states);
      close_cache_writer(layer);
    }
  }
}

std::int64_t GptqRun::last_open_layer() const {
  std::int64_t last = -1;
  for (const GroupPlan& group : plan_.groups) {
    if (!is_done(group) || cache_lacks(group.layer)) last = std::max(last, group.layer);
  }
  return last;
}

std::filesystem::path GptqRun::spill_folder() const {
  return options_.calibration.spill_folder ? *options_.calibration.spill_folder
                                           : std::filesystem::absolute(output_).parent_path();
}

void GptqRun::open_spilling_forward() {
  model::ForwardOptions options;
  options.spill_folder = spill_folder();
  forward_ = std::make_unique<model::Forward>(forward_source(), context_.pool, options);
}

std::vector<GroupPlan> GptqRun::groups_of_layer(std::int64_t layer) const {
  std::vector<GroupPlan> groups;
  for (const GroupPlan& group : plan_.groups) {
    if (group.layer == layer) groups.push_back(group);
  }
  return groups;
}

void GptqRun::run_one_layer(TensorJob& job, std::int64_t layer, model::HiddenStates& states) {
  const auto start = Clock::now();
  std::vector<GroupPlan> groups = groups_of_layer(layer);
  std::vector<GroupPlan> cached;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(cached),
               [](const GroupPlan& group) { return group.cache_entry.has_value(); });
  if (!cached.empty()) groups.clear();  // a file serves whole layers
  open_cache_writer(layer);
  // A layer that an interrupted run has finished only passes the hidden states on.
  const bool open = cache_lacks(layer) ||
                    !std::all_of(groups.begin(), groups.end(),
                                 [&](const GroupPlan& group) { return is_done(group); });
  if (!open) groups.clear();
  // Damaged weights are named before they poison the hidden states.
  for (const GroupPlan& group : groups) {
    for (const std::size_t index : group.tensors) {
      (void)candidate_weights(job, index);
      source_->release(index);
    }
  }
  std::optional<calib::CaptureLimit> limit;
  if (plan_.memory.hessian_limit > 0)
    limit = calib::CaptureLimit{plan_.memory.hessian_limit, spill_folder()};
  calib::Capture capture(input_groups_of(groups), context_.pool, limit);
  const std::int64_t layers = forward_->arch().layers;
  const model::Windows& windows = input_->corpus.windows;
  if (layer < layers) {
    forward_->run_layer(layer, windows, states, &capture, [&](std::int64_t done) {
      context_.interrupt.check();
      context_.log.progress("calibrating", layer * windows.tokens() + done,
                            layers * windows.tokens(), "token layers");
    });
  } else {
    forward_->run_head(windows, states, &capture, {});
  }
  time_phase("forward and Hessians", seconds_since(start));
  if (!cached.empty()) solve_cached(job, cached, {});
  solve_captured(job, capture, groups);
}

void GptqRun::solve_captured(TensorJob& job, calib::Capture& capture,
                             const std::vector<GroupPlan>& groups) {
  capture.settle();
  if (!groups.empty() && cache_lacks(groups.front().layer)) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < groups.size(); ++i)
      cache_writer_->add(groups[i].readers, *capture.read(i));
    journal_->cache(files_.files()[writing_].path, cache_writer_->sync());
    time_phase("Hessian cache", seconds_since(start));
  }
  const auto start = Clock::now();
  priors_.build(
      groups, 0, groups.size(), [&](std::size_t i) { return capture.count(i); },
      [&](std::size_t i) { return capture.read(i); }, context_.pool);
  const bool resident = plan_.memory.hessian_limit == 0;
  solve_batches(solve_needs(plan_, groups, *source_, resident), [&](std::size_t i) {
    if (!is_done(groups[i])) solve_one(job, groups[i], *capture.take(i));
  });
  time_phase("fold and sweep", seconds_since(start));
}

void GptqRun::solve_batches(SolveNeeds needs, const std::function<void(std::size_t)>& solve) {
  const auto groups = static_cast<std::int64_t>(needs.groups.size());
  GroupQueue queue(std::move(needs.groups), needs.limit);
  // Workers take the next group as they come free: a wide group holds up nobody.
  context_.pool.for_each(std::min(plan_.memory.groups_at_once, groups), [&](std::int64_t) {
    while (const auto i = queue.next()) {
      context_.interrupt.check();
      solve(*i);
      queue.done(*i);
    }
  });
}

void GptqRun::miss_group(TensorJob& job, const GroupPlan& group, std::int64_t rows) {
  const std::string why =
      rows == 0 ? "no calibration row reached its input"
                : fmt::format(
                      "only {} calibration rows reached its expert, and there is no prior "
                      "(--min-rows, --moe-prior)",
                      rows);
  for (const std::size_t index : group.tensors) {
    miss_tensor(job, index, why);
    report_.tensors[index].hessian_rows = rows;
  }
  record(group);
}

void GptqRun::solve_one(TensorJob& job, const GroupPlan& group, calib::Hessian& hessian) {
  const std::int64_t prior = priors_.apply(group, hessian, context_.pool);
  if (prior == 0 && (hessian.count == 0 || priors_.starved(group, hessian.count))) {
    miss_group(job, group, hessian.count);
    return;
  }
  solve_ready(job, group, hessian, {prior, nullptr});
}

void GptqRun::solve_ready(TensorJob& job, const GroupPlan& group, const calib::Hessian& hessian,
                          const Ready& ready) {
  const std::string& lead = source_->tensors()[group.tensors.front()].name;
  const calib::HessianHealth health = with_context(
      "tensor " + lead + ": Hessian", [&] { return calib::check_hessian(hessian, context_.pool); });
  solve_group(job, backend_.backend(),
              group_settings(options_, ready.targets), group, hessian);
  for (const std::size_t index : group.tensors) report_.tensors[index].prior_rows = ready.prior_rows;
  const TensorReport& report = report_.tensors[group.tensors.front()];
  if (report.identity) {
    add_warning(fmt::format(
        "tensor {}: the Hessian did not factor with any damping up to 10; its group is rounded",
        lead));
  } else if (report.retries > 0) {
    add_warning(fmt::format("tensor {}: the Hessian needed damping {:g} instead of {:g}", lead,
                            report.lambda, options_.lambda));
  }
  context_.log.debug("{}: n {}, {} dead and {} outlier channels, damping {:g}, {:.2f} s", lead,
                     group.width, health.dead_channels, health.outlier_channels, report.lambda,
                     report.seconds);
  record(group);
}

cmf::Header GptqRun::output_header() const {
  cmf::Header header = source_->header();
  add_gptq_provenance(header, options_, report_);
  return header;
}

void GptqRun::finish() {
  const auto start = Clock::now();
  for (TensorReport& tensor : report_.tensors) {
    if (tensor.identity) tensor.missed = true;
  }
  // Groups run at the same time: their warnings come in any order.
  std::sort(report_.warnings.begin() + static_cast<std::ptrdiff_t>(planned_warnings_),
            report_.warnings.end());
  report_.bytes_in = plan_.input_bytes;
  report_.bytes_out = writer_->finish(output_header());
  journal_->remove();
  check_written(output_, context_.pool);
  time_phase("write and verify", seconds_since(start));
}

void GptqRun::judge() {
  if (!options_.perplexity_text) return;
  const auto start = Clock::now();
  JudgeOptions judge;
  judge.text = *options_.perplexity_text;
  report_.perplexity_before = run_perplexity(options_.input, judge, context_).perplexity;
  report_.perplexity_after = run_perplexity(output_, judge, context_).perplexity;
  time_phase("perplexity", seconds_since(start));
}

void GptqRun::time_phase(const std::string& name, double seconds) {
  for (PhaseTime& phase : report_.phases) {
    if (phase.name == name) {
      phase.seconds += seconds;
      return;
    }
  }
  report_.phases.push_back({name, seconds});
}

}  // namespace cortiq::pipeline
