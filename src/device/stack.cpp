#include "stack.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "ladder.hpp"
#include "cortiq/support/half.hpp"
#include "packing.hpp"

namespace cortiq::device {

namespace {

using vulkan::Kernel;

constexpr std::uint32_t kThreads = 256;
constexpr std::int64_t kGatherColumns = 1024;  // of one workgroup of weights_gather
constexpr double kResidualHeadroom = 8;        // |w - q| may exceed the largest weight when a group clips

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double largest_scale(const Scaling& scaling) {
  double largest = 0;
  for (std::size_t i = 0; i < scaling.inverse.size(); ++i) {
    if (scaling.diagonal[i] > 0.0F)
      largest = std::max(largest, 1.0 / static_cast<double>(scaling.inverse[i]));
  }
  return largest;
}

}  // namespace

StackSweep::StackSweep(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                       const DeviceFactor& factor, const gptq::SweepOptions& options)
    : engine_(engine),
      stream_(stream),
      pool_(pool),
      factor_(factor),
      options_(options),
      four_bit_(options.target == gptq::Target::kQ4tp),
      fixed_(options.order == gptq::Order::kAct),
      n_(factor.n()),
      size_(factor.size),
      groups_(factor.n() / layout::kChunk) {
  CORTIQ_ASSERT(n_ % layout::kChunk == 0 && options.order == factor.order);
  std::vector<float> live(at(n_)), diagonal(at(n_));
  std::vector<std::uint32_t> position(at(n_));
  for (std::int64_t i = 0; i < n_; ++i) {
    const auto channel = at(factor.scaling.elimination[at(i)]);
    live[channel] = factor.scaling.facts.dead[channel] != 0 ? 0.0F : 1.0F;
    diagonal[channel] = factor.scaling.diagonal[at(i)];
    position[channel] = static_cast<std::uint32_t>(i);
  }
  Upload upload(engine, stream, pool);
  live_ = upload.vector(live);
  natural_diagonal_ = upload.vector(diagonal);
  position_ = upload.vector(position);
  stream.finish();
}

void StackSweep::load(Weights weights, std::vector<StackPart> parts, float absmax) {
  parts_ = std::move(parts);
  absmax_ = absmax;
  rows_ = parts_.back().stack_row + parts_.back().rows;
  padded_rows_ = padded(rows_);
  weights_ = engine_.device_buffer(4 * rows_ * n_);
  work_ = engine_.device_buffer(4 * padded_rows_ * size_);
  codes_ = engine_.device_buffer(16 * rows_ * groups_);
  rungs_ = engine_.device_buffer(4 * rows_ * groups_);
  params_ = engine_.device_buffer(4 * rows_);
  table_ = engine_.device_buffer(4 * rows_ * codec::kRungs);
  loss_ = engine_.device_buffer(4 * rows_);
  sums_ = engine_.device_buffer(16 * rows_);
  status_ = engine_.device_buffer(4);
  const double bound = static_cast<double>(absmax) * largest_scale(factor_.scaling) * kResidualHeadroom;
  errors_ = engine_.make_operand(padded_rows_, kBlockColumns, split_scale(bound, 1e6F));
  stream_.section("upload weights");
  Upload upload(engine_, stream_, pool_);
  std::vector<const float*> rows(at(rows_));
  for (const StackPart& part : parts_) {
    for (std::int64_t r = 0; r < part.rows; ++r)
      rows[at(part.stack_row + r)] = weights[part.tensor].row(part.first + r);
  }
  upload.rows(
      weights_, rows_, [this](std::int64_t) { return 4U * static_cast<std::uint64_t>(n_); },
      [&](std::int64_t r, std::byte* out) { std::memcpy(out, rows[at(r)], 4 * at(n_)); });
  stream_.fill(status_, 0, 4, 0);
  stream_.barrier();
  RowLadders ladders;
  ladders.rule = ladder_rule(options_);
  ladders.widen = options_.ladder == gptq::LadderFit::kFit && !fixed_;
  ladders.rows = rows_;
  ladders.n = n_;
  ladders.weights = weights_.address();
  ladders.live = live_.address();
  ladders.hw = natural_diagonal_.address();
  ladders.params = params_.address();
  ladders.rungs = fixed_ ? rungs_.address() : 0;
  stream_.section("ladders");
  place_row_ladders(engine_, stream_, ladders);
  stream_.barrier();
  make_table();
  stream_.finish();  // the staging buffers go
}

void StackSweep::make_table() {
  LadderTables tables;
  tables.rule = ladder_rule(options_);
  tables.rows = rows_;
  tables.params = params_.address();
  tables.table = table_.address();
  fill_ladder_tables(engine_, stream_, tables);
  stream_.barrier();
}

void StackSweep::gather(std::uint32_t what, const Operand* lines) {
  layout::GatherPush push{};
  push.weights = weights_.address();
  push.channel = factor_.channel.address();
  push.out_matrix = work_.address();
  push.out_lines = lines != nullptr ? lines->line(0, 0) : 0;
  push.codes = codes_.address();
  push.rungs = rungs_.address();
  push.table = table_.address();
  push.rows = static_cast<std::uint32_t>(rows_);
  push.padded_rows = static_cast<std::uint32_t>(padded_rows_);
  push.n = static_cast<std::uint32_t>(n_);
  push.size = static_cast<std::uint32_t>(size_);
  push.scale = lines != nullptr ? lines->scale : 1.0F;
  const std::uint32_t constants[3] = {what, engine_.split() ? 1U : 0U, four_bit_ ? 1U : 0U};
  stream_.section("gather");
  stream_.dispatch(engine_.pipeline(Kernel::kWeightsGather, kThreads, constants), push,
                   static_cast<std::uint64_t>(padded_rows_) *
                       static_cast<std::uint64_t>((size_ + kGatherColumns - 1) / kGatherColumns));
}

void StackSweep::sweep() {
  pass();
  if (options_.ladder == gptq::LadderFit::kFit && !fixed_) {
    LadderRefit refit;
    refit.rule = ladder_rule(options_);
    refit.rows = rows_;
    refit.groups = groups_;
    refit.wide = params_.address();
    refit.rungs = rungs_.address();
    refit.params = params_.address();
    stream_.section("ladders");
    refit_ladders(engine_, stream_, refit);
    stream_.barrier();
    make_table();
    pass();
  }
  check_status("sweep");
  read_params();
}

void StackSweep::check_status(std::string_view what) {
  std::uint32_t bad = 0;
  download(engine_, stream_, status_, 0, std::as_writable_bytes(std::span(&bad, 1)));
  if (bad == 0) return;
  fail(ErrorKind::kDevice, "{}: residuals of {} groups leave the range of the device's arithmetic", what,
       bad);
}

void StackSweep::read_params() {
  std::vector<std::uint32_t> words(at(rows_));
  download(engine_, stream_, params_, 0, std::as_writable_bytes(std::span(words)));
  set_host_params(words);
}

void StackSweep::set_host_params(std::span<const std::uint32_t> words) {
  host_params_.clear();
  for (std::size_t r = 0; r < words.size(); ++r) {
    host_params_.push_back({static_cast<std::uint16_t>(words[r]), static_cast<std::uint16_t>(words[r] >> 16)});
    if (std::isfinite(codec::q4tp_ladder(host_params_.back()).back())) continue;
    const StackPart& part = *std::find_if(parts_.begin(), parts_.end(), [&](const StackPart& p) {
      return static_cast<std::int64_t>(r) < p.stack_row + p.rows;
    });
    fail(ErrorKind::kNumeric, "row {}: its scales exceed what the file format holds; choose another codec",
         part.first + static_cast<std::int64_t>(r) - part.stack_row);
  }
}

std::vector<float> StackSweep::read_sums() {
  layout::RowSumsPush push{};
  push.weights = weights_.address();
  push.product = work_.address();
  push.channel = factor_.channel.address();
  push.inverse = factor_.inverse.address();
  push.codes = codes_.address();
  push.rungs = rungs_.address();
  push.table = table_.address();
  push.sums = sums_.address();
  push.rows = static_cast<std::uint32_t>(rows_);
  push.n = static_cast<std::uint32_t>(n_);
  push.size = static_cast<std::uint32_t>(size_);
  push.lambda = static_cast<float>(factor_.scaling.lambda);
  const std::uint32_t constants[1] = {four_bit_ ? 1U : 0U};
  stream_.section("row sums");
  stream_.dispatch(engine_.pipeline(Kernel::kRowSums, kThreads, constants), push,
                   static_cast<std::uint64_t>(rows_));
  std::vector<float> sums(at(4 * rows_));
  download(engine_, stream_, sums_, 0, std::as_writable_bytes(std::span(sums)));
  return sums;
}

void StackSweep::measure(const DampedHessian& h, std::span<gptq::SweepResult> results) {
  multiply_by(h, 1, split_scale(static_cast<double>(absmax_), 1e6F),
              options_.debias ? Purpose::kTwoForms : Purpose::kOneForm);
  const std::vector<float> sums = read_sums();
  std::vector<float> loss(at(rows_));
  download(engine_, stream_, loss_, 0, std::as_writable_bytes(std::span(loss)));
  std::vector<double> errors(at(rows_));
  for (std::size_t r = 0; r < errors.size(); ++r) {
    errors[r] = static_cast<double>(loss[r]) -
                factor_.scaling.lambda * static_cast<double>(sums[4 * r]) -
                static_cast<double>(sums[4 * r + 1]);
  }
  if (options_.debias) debias_rows(sums, errors);
  for (const StackPart& part : parts_) {
    gptq::SweepResult& result = results[part.tensor];
    for (std::int64_t r = 0; r < part.rows; ++r) {
      const std::size_t row = at(part.stack_row + r);
      result.output_error += factor_.scaling.base * errors[row];
      result.output_energy += factor_.scaling.base * static_cast<double>(sums[4 * row + 3]);
    }
  }
}

/// As ChunkSweep::debias of the host: W - Q' = (1-a) W + a (W - Q) for Q' = a Q.
void StackSweep::debias_rows(std::span<const float> sums, std::vector<double>& errors) {
  std::vector<std::uint32_t> words(at(rows_));
  for (std::size_t r = 0; r < words.size(); ++r) {
    const auto slope = static_cast<double>(sums[4 * r + 2]);
    const auto energy = static_cast<double>(sums[4 * r + 3]);
    const codec::LadderParams before = host_params_[r];
    const codec::LadderParams after = codec::unshrink(before, slope, energy);
    words[r] = static_cast<std::uint32_t>(after.lo) | static_cast<std::uint32_t>(after.step) << 16;
    if (after == before) continue;
    const double a = std::exp2(static_cast<double>(f16_to_f32(after.lo)) -
                               static_cast<double>(f16_to_f32(before.lo)));
    errors[r] = (1 - a) * (1 - a) * energy + 2 * a * (1 - a) * (energy - slope) + a * a * errors[r];
  }
  Upload upload(engine_, stream_, pool_);
  upload.bytes(params_, std::as_bytes(std::span(words)));
  stream_.finish();
  set_host_params(words);
}

void StackSweep::pack(Weights weights, std::span<gptq::SweepResult> results) {
  const unsigned bits = four_bit_ ? 4 : 2;
  for (const StackPart& part : parts_) {
    const codec::PlaneLayout whole = codec::plane_layout(static_cast<int>(bits), weights[part.tensor].rows(), n_);
    const codec::PlaneLayout piece = codec::plane_layout(static_cast<int>(bits), part.rows, n_);
    gptq::SweepResult& result = results[part.tensor];
    if (result.payload.empty()) result.payload.resize(whole.bytes);
    vulkan::Buffer payload =
        engine_.device_buffer(static_cast<std::int64_t>((piece.bytes + 3) / 4 * 4));
    vulkan::Buffer zero_groups = engine_.device_buffer(4);
    stream_.fill(zero_groups, 0, 4, 0);
    stream_.barrier();
    Packing pack;
    pack.bits = static_cast<int>(bits);
    pack.first_row = part.stack_row;
    pack.rows = part.rows;
    pack.groups = groups_;
    pack.codes = codes_.address();
    pack.rungs = rungs_.address();
    pack.params = params_.address();
    pack.position = position_.address();
    pack.payload = payload.address();
    pack.zero_groups = zero_groups.address();
    stream_.section("pack");
    pack_payload(engine_, stream_, pack);
    stream_.barrier();
    std::vector<std::byte> bytes(piece.bytes);
    download(engine_, stream_, payload, 0, bytes);
    std::uint32_t zeros = 0;
    download(engine_, stream_, zero_groups, 0, std::as_writable_bytes(std::span(&zeros, 1)));
    result.dead_groups += zeros;
    const std::uint64_t code_row = static_cast<std::uint64_t>(n_) * bits / 8;
    const auto first = static_cast<std::uint64_t>(part.first);
    const auto copy = [&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
      std::memcpy(result.payload.data() + to, bytes.data() + from, count);
    };
    copy(0, first * code_row, static_cast<std::uint64_t>(part.rows) * code_row);
    copy(piece.params_offset, whole.params_offset + 4 * first, 4 * static_cast<std::uint64_t>(part.rows));
    copy(piece.rungs_offset,
         whole.rungs_offset + first * static_cast<std::uint64_t>(whole.rung_row_bytes),
         static_cast<std::uint64_t>(part.rows * whole.rung_row_bytes));
  }
}

}  // namespace cortiq::device
