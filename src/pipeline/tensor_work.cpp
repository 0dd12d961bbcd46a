#include "tensor_work.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cortiq/cmf/verify.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/one_bit.hpp"

namespace cortiq::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How often each code of a q4tp or q2tp payload is used.
std::vector<std::int64_t> count_codes(codec::Codec codec, std::int64_t rows, std::int64_t cols,
                                      const std::vector<std::byte>& payload) {
  const int bits = codec == codec::Codec::kQ4tp ? 4 : codec == codec::Codec::kQ2tp ? 2 : 0;
  if (bits == 0) return {};
  std::vector<std::int64_t> counts(std::size_t{1} << bits, 0);
  const std::uint64_t end = codec::plane_layout(bits, rows, cols).params_offset;
  const unsigned mask = (1U << bits) - 1U;
  for (std::uint64_t i = 0; i < end; ++i) {
    const auto byte = std::to_integer<unsigned>(payload[i]);
    for (unsigned shift = 0; shift < 8; shift += static_cast<unsigned>(bits))
      ++counts[(byte >> shift) & mask];
  }
  return counts;
}

codec::Codec float_codec(cmf::DType dtype) {
  if (dtype == cmf::DType::kBf16) return codec::Codec::kBf16;
  return dtype == cmf::DType::kF16 ? codec::Codec::kF16 : codec::Codec::kF32;
}

/// Refuses weights that the codec would store as infinity.
void check_range(codec::Codec codec, ConstMatrixView<float> w, Pool& pool) {
  const float limit = codec::largest_weight(codec);
  std::vector<float> largest(static_cast<std::size_t>(w.rows()), 0.0F);
  pool.for_ranges(w.rows(), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float& most = largest[static_cast<std::size_t>(r)];
      for (std::int64_t c = 0; c < w.cols(); ++c) most = std::max(most, std::fabs(w(r, c)));
    }
  });
  for (std::size_t r = 0; r < largest.size(); ++r) {
    if (largest[r] <= limit) continue;
    fail(ErrorKind::kNumeric,
         "row {} has a weight of magnitude {:g}, and {} holds at most {:g}; keep the tensor as f32 or bf16 "
         "(--tensor-quant)",
         r, largest[r], codec::codec_name(codec), limit);
  }
}

/// Rounding as it is done to a tensor of the plan. A candidate keeps the size that was planned for
/// it.
std::vector<std::byte> rounded_payload(const TensorJob& job, const TensorChoice& choice,
                                       ConstMatrixView<float> weights) {
  check_range(choice.codec, weights, job.context.pool);
  const auto target = gptq_target(choice.codec);
  if (choice.action == Action::kGptq && gptq::is_one_bit(*target))
    return gptq::round_one_bit(weights, *target, choice.one_bit, job.context.pool);
  return codec::encode(choice.codec, weights, job.encode, job.context.pool);
}

/// What a member of a group needs besides the group's factor.
struct Member {
  std::size_t index = 0;
  const DecodedTensor* weights = nullptr;
};

/// Relative output error that rounding alone would leave.
std::optional<double> rounding_error(const TensorJob& job, gptq::Backend& backend,
                                     const gptq::Factor& factor, const Member& member,
                                     const calib::Hessian& hessian, double energy) {
  const TensorChoice& choice = job.plan.choices[member.index];
  const DecodedTensor& weights = *member.weights;
  if (!(energy > 0)) return std::nullopt;
  const auto payload = rounded_payload(job, choice, weights.view());
  return payload_error({weights, choice.codec, payload}, backend, hessian.view(), factor,
                       job.context.pool) /
         energy;
}

}  // namespace

double payload_error(const Encoded& encoded, gptq::Backend& backend, ConstMatrixView<double> h,
                     const gptq::Factor& factor, Pool& pool) {
  const DecodedTensor& w = encoded.weights;
  const std::vector<std::int64_t> shape{w.rows, w.cols};
  const codec::RowDecoder decoder(codec::dtype_of(encoded.codec), shape, encoded.payload,
                                  codec::LadderKind::kDeterministic);
  std::vector<float> error(w.values.size());
  const MatrixView<float> view(error.data(), w.rows, w.cols);
  decoder.decode_all(view, pool);
  for (std::size_t i = 0; i < error.size(); ++i) error[i] = w.values[i] - error[i];
  return backend.error_of(view, h, factor);
}

std::vector<TensorReport> initial_reports(const cmf::Source& source, const Plan& plan) {
  std::vector<TensorReport> reports(plan.choices.size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const cmf::TensorInfo& info = source.tensors()[i];
    TensorReport& report = reports[i];
    report.name = info.name;
    report.action = plan.choices[i].action;
    report.codec = plan.choices[i].action == Action::kCopy
                       ? cmf::dtype_name(plan.output[i].dtype)
                       : codec::codec_name(plan.choices[i].codec);
    report.note = plan.choices[i].reason;
    report.missed = plan.choices[i].missed;
    report.rows = info.shape.size() == 2 ? info.shape[0] : 1;
    report.cols = info.shape.size() == 2 ? info.shape[1] : info.elements();
    report.bytes_in = info.nbytes;
    report.bytes_out = plan.output[i].nbytes;
  }
  return reports;
}

void copy_tensor(TensorJob& job, std::size_t index) {
  const cmf::TensorInfo& info = job.source.tensors()[index];
  if (cmf::is_float(info.dtype)) {
    const DecodedTensor tensor = candidate_weights(job, index);
    if (job.reports[index].sanitized > 0) {
      job.writer.write_tensor(
          index, codec::encode(float_codec(info.dtype), tensor.view(), {}, job.context.pool));
      return;
    }
  }
  job.writer.write_tensor(index, job.source.payload(index).bytes());
  job.source.release(index);
}

void round_tensor(TensorJob& job, std::size_t index) {
  const auto start = Clock::now();
  const TensorChoice& choice = job.plan.choices[index];
  const DecodedTensor tensor = candidate_weights(job, index);
  const auto payload =
      with_context("tensor " + job.source.tensors()[index].name,
                   [&] { return rounded_payload(job, choice, tensor.view()); });
  job.writer.write_tensor(index, payload);
  job.source.release(index);
  TensorReport& report = job.reports[index];
  report.codes = count_codes(choice.codec, tensor.rows, tensor.cols, payload);
  report.seconds = seconds_since(start);
}

void write_plain_tensors(TensorJob& job) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < job.plan.choices.size(); ++i) {
    const bool plain = job.plan.choices[i].action != Action::kGptq;
    if (plain && !job.writer.is_written(i)) total += job.source.tensors()[i].nbytes;
  }
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < job.plan.choices.size(); ++i) {
    if (job.plan.choices[i].action == Action::kGptq || job.writer.is_written(i)) continue;
    job.context.interrupt.check();
    if (job.plan.choices[i].action == Action::kCopy) {
      copy_tensor(job, i);
    } else {
      round_tensor(job, i);
    }
    if (job.journal != nullptr) job.journal->finished(i, job.reports[i]);
    done += job.source.tensors()[i].nbytes;
    job.context.log.progress("copying and rounding", static_cast<std::int64_t>(done),
                             static_cast<std::int64_t>(total), "bytes");
  }
}

DecodedTensor candidate_weights(TensorJob& job, std::size_t index) {
  DecodedTensor tensor = decode_tensor(job.source, index, job.context.pool);
  job.reports[index].sanitized =
      check_finite(tensor, job.source.tensors()[index].name, job.non_finite, job.context.pool);
  return tensor;
}

GroupSettings group_settings(const GptqOptions& options,
                             const std::vector<DecodedTensor>* targets) {
  return {options.lambda,    options.order,       options.rung,        options.ladder,
          options.polish,    options.group_moves, options.row_scale,   options.q2tp_debias,
          options.q4tp_debias, targets};
}

gptq::SweepOptions sweep_options(const TensorChoice& choice, const GroupSettings& settings) {
  gptq::SweepOptions sweep;
  sweep.target = *gptq_target(choice.codec);
  sweep.order = settings.order;
  sweep.rung = settings.rung;
  sweep.ladder = settings.ladder;
  sweep.polish = settings.polish;
  sweep.group_moves = settings.group_moves && sweep.polish > 0;
  sweep.row_scale = settings.row_scale && sweep.polish > 0;
  sweep.rule = choice.rule;
  sweep.one_bit = choice.one_bit;
  sweep.one_bit.feedback = settings.lambda < gptq::kNoFeedbackLambda;
  sweep.debias = sweep.target == gptq::Target::kQ2tp ? settings.q2tp_debias : settings.q4tp_debias;
  return sweep;
}

void solve_group(TensorJob& job, gptq::Backend& backend, const GroupSettings& settings,
                 const GroupPlan& group, const calib::Hessian& hessian) {
  const auto start = Clock::now();
  const auto members = static_cast<std::int64_t>(group.tensors.size());
  gptq::FoldOptions fold_options;
  fold_options.lambda = settings.lambda;
  fold_options.order = settings.order;
  fold_options.keep_damped = job.plan.keeps_damped;
  fold_options.host_only =
      std::any_of(group.tensors.begin(), group.tensors.end(), [&](std::size_t i) {
        return gptq::needs_host(sweep_options(job.plan.choices[i], settings));
      });
  const auto factor = backend.fold(hessian.view(), fold_options);
  std::vector<DecodedTensor> own(settings.targets == nullptr ? group.tensors.size() : 0);
  job.context.pool.for_each(static_cast<std::int64_t>(own.size()), [&](std::int64_t i) {
    own[static_cast<std::size_t>(i)] = candidate_weights(job, group.tensors[static_cast<std::size_t>(i)]);
  });
  const std::vector<DecodedTensor>& weights = settings.targets == nullptr ? own : *settings.targets;
  std::vector<gptq::SweepJob> jobs;
  for (std::size_t i = 0; i < group.tensors.size(); ++i) {
    const std::size_t index = group.tensors[i];
    jobs.push_back({job.source.tensors()[index].name, weights[i].view(),
                    sweep_options(job.plan.choices[index], settings)});
  }
  const std::vector<gptq::SweepResult> results =
      backend.sweep_group(jobs, hessian.view(), *factor);
  const double share = seconds_since(start) / static_cast<double>(members);
  job.context.pool.for_each(members, [&](std::int64_t i) {
    const auto measure = Clock::now();
    const Member member{group.tensors[static_cast<std::size_t>(i)], &weights[static_cast<std::size_t>(i)]};
    const gptq::SweepResult& result = results[static_cast<std::size_t>(i)];
    job.writer.write_tensor(member.index, result.payload);
    job.source.release(member.index);
    TensorReport& report = job.reports[member.index];
    report.hessian_rows = hessian.count;
    report.lambda = factor->lambda_used;
    report.retries = static_cast<std::int64_t>(factor->lambda_tried.size()) - 1;
    report.identity = factor->identity;
    report.dead_channels = factor->dead_channels;
    report.backend = factor->backend;
    report.backend_note = factor->note;
    if (result.output_energy > 0) report.error = result.output_error / result.output_energy;
    report.rtn_error = rounding_error(job, backend, *factor, member, hessian, result.output_energy);
    report.codes = count_codes(job.plan.choices[member.index].codec, member.weights->rows,
                               member.weights->cols, result.payload);
    report.seconds = share + seconds_since(measure);
  });
}

void check_written(const std::filesystem::path& output, Pool& pool) {
  const auto reader = cmf::Reader::open(output, cmf::Reader::Hashes::kIgnore);  // verify() compares
  const cmf::VerifyReport check = cmf::verify(*reader, pool);
  if (check.problems.empty()) return;
  fail(ErrorKind::kIo,
       "{}: the finished file does not verify: {}; the disk or memory may be faulty",
       output.string(), check.problems.front());
}

void miss_tensor(TensorJob& job, std::size_t index, const std::string& why) {
  round_tensor(job, index);
  TensorReport& report = job.reports[index];
  report.missed = true;
  report.action = Action::kRound;
  report.note = why;
}

}  // namespace cortiq::pipeline
