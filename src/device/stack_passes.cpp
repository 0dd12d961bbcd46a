// stack_passes.cpp: the blocked passes over the columns: sweep and polish.
#include <algorithm>

#include "stack.hpp"

namespace cortiq::device {

namespace {

using vulkan::Kernel;
constexpr std::uint32_t kThreads = 256;
constexpr double kChangeHeadroom = 4;     // |q - w| and changes of q, in units of the largest weight
constexpr float kChangeScaleLimit = 1e6F;
constexpr std::uint64_t kRowsOfGroup = 8;  // rows of a workgroup of block_sweep and block_polish

/// kSearch of block_sweep.
std::uint32_t search_of(const gptq::SweepOptions& options) {
  if (options.order == gptq::Order::kAct) return 3;
  if (options.rung != gptq::Rung::kDiag) return 2;
  const bool full = options.target == gptq::Target::kQ2tp && options.rule == gptq::Q2tpRule::kPlaced;
  return full ? 1 : 0;
}

std::uint64_t workgroups(std::int64_t rows) {
  return (static_cast<std::uint64_t>(rows) + kRowsOfGroup - 1) / kRowsOfGroup;
}

}  // namespace

std::uint64_t StackSweep::work_column(std::int64_t column) const {
  return work_.address() + 4U * static_cast<std::uint64_t>(column);
}

void StackSweep::pass() {
  gather(0, nullptr);
  stream_.fill(loss_, 0, loss_.bytes(), 0);
  stream_.barrier();
  const std::uint32_t constants[3] = {four_bit_ ? 1U : 0U, search_of(options_),
                                      engine_.split() ? 1U : 0U};
  const auto& kernel = engine_.pipeline(Kernel::kBlockSweep, kThreads, constants);
  for (std::int64_t first = 0; first < n_; first += kBlockColumns) {
    const std::int64_t columns = std::min(kBlockColumns, n_ - first);
    layout::SweepPush push{};
    push.w = work_column(first);
    push.band = factor_.band.address() + 4U * static_cast<std::uint64_t>(first * kBlockColumns);
    push.table = table_.address();
    push.params = params_.address();
    push.diagonal = factor_.diagonal.address() + 4U * static_cast<std::uint64_t>(first);
    push.channel = factor_.channel.address() + 4U * static_cast<std::uint64_t>(first);
    push.rungs = rungs_.address();
    push.codes = codes_.address() + 16U * static_cast<std::uint64_t>(first / layout::kChunk);
    push.errors = errors_.line(0, 0);
    push.loss = loss_.address();
    push.status = status_.address();
    push.rows = static_cast<std::uint32_t>(rows_);
    push.padded_rows = static_cast<std::uint32_t>(padded_rows_);
    push.size = static_cast<std::uint32_t>(size_);
    push.groups = static_cast<std::uint32_t>(groups_);
    push.columns = static_cast<std::uint32_t>(columns);
    push.scale = errors_.scale;
    stream_.section("block sweep");
    stream_.dispatch(kernel, push, workgroups(rows_));
    stream_.account(static_cast<double>(rows_ * columns) * 2000.0);  // 32 candidates of ~60 flops
    const std::int64_t next = first + columns;
    if (next >= n_) break;
    stream_.barrier();
    stream_.section("trailing product");
    update_work(errors_, factor_.u, first, columns, next, -1);
    stream_.barrier();
  }
  stream_.barrier();
}

void StackSweep::polish(const DampedHessian& h) {
  if (options_.polish <= 0 || fixed_) return;
  const float scale = split_scale(kChangeHeadroom * static_cast<double>(absmax_), kChangeScaleLimit);
  multiply_by(h, 2, scale, Purpose::kGradient);  // (Q - W) H_d / base
  const Operand changes = engine_.make_operand(padded_rows_, kBlockColumns, scale);
  for (int pass = 0; pass < options_.polish; ++pass) {
    if (options_.group_moves) move_pass(h, Kernel::kBlockMoves, changes, true);
    move_pass(h, Kernel::kBlockPolish, changes, pass + 1 < options_.polish);
  }
  stream_.barrier();
  stream_.finish();
}

void StackSweep::move_pass(const DampedHessian& h, Kernel kernel, const Operand& changes,
                           bool more_follow) {
  for (std::int64_t first = 0; first < n_; first += kBlockColumns) {
    const std::int64_t columns = std::min(kBlockColumns, n_ - first);
    move_block(h, kernel, changes, {first, columns});
    // The last pass needs the gradient only where it has not been yet.
    const std::int64_t from = more_follow ? 0 : first + columns;
    if (from >= n_) break;
    stream_.section("polish product");
    update_work(changes, h.lines, first, columns, from, 1);
    stream_.barrier();
  }
}

/// work[:, from..] += alpha * operand * matrix[first.., from..], for the rows [first, first + columns) of the matrix.
void StackSweep::update_work(const Operand& operand, const Operand& matrix, std::int64_t first,
                             std::int64_t columns, std::int64_t from, double alpha) {
  Product p;
  p.a = &operand;
  p.b = &matrix;
  p.b_row = from;
  p.b_chunk = first / layout::kChunk;
  p.c = work_column(from);
  p.c_stride = size_;
  p.m = padded_rows_;
  p.n = size_ - from;
  p.k = columns;
  p.flags = layout::kGemmAdd;
  p.alpha = alpha;
  engine_.multiply(stream_, p);
}

/// work = A H_d / base for what gather() makes of the rows; for kOneForm see Engine::multiply_half.
void StackSweep::multiply_by(const DampedHessian& h, std::uint32_t what, float scale, Purpose purpose) {
  const Operand lines = engine_.make_operand(padded_rows_, size_, scale);
  gather(what, &lines);
  stream_.barrier();
  stream_.section(purpose == Purpose::kGradient ? "polish gradient" : "energy product");
  Product p;
  p.a = &lines;
  p.b = &h.lines;
  p.c = work_column(0);
  p.c_stride = size_;
  p.m = padded_rows_;
  p.n = size_;
  p.k = size_;
  p.high_only = purpose != Purpose::kGradient;
  if (purpose == Purpose::kOneForm)
    engine_.multiply_half(stream_, p);
  else
    engine_.multiply(stream_, p);
  stream_.barrier();
  stream_.finish();  // before the operand's memory is given back
}

void StackSweep::move_block(const DampedHessian& h, Kernel kernel, const Operand& changes,
                            Columns block) {
  const auto [first, columns] = block;
  layout::PolishPush push{};
  push.gradient = work_column(first);
  push.band = h.band.address() + 4U * static_cast<std::uint64_t>(first * kBlockColumns);
  push.table = table_.address();
  push.channel = factor_.channel.address() + 4U * static_cast<std::uint64_t>(first);
  push.rungs = rungs_.address();
  push.codes = codes_.address() + 16U * static_cast<std::uint64_t>(first / layout::kChunk);
  push.changes = changes.line(0, 0);
  push.loss = loss_.address();
  if (kernel == Kernel::kBlockMoves)
    push.blocks = h.blocks.address() + 4U * layout::kMoveFloats * static_cast<std::uint64_t>(first / layout::kChunk);
  push.rows = static_cast<std::uint32_t>(rows_);
  push.padded_rows = static_cast<std::uint32_t>(padded_rows_);
  push.size = static_cast<std::uint32_t>(size_);
  push.groups = static_cast<std::uint32_t>(groups_);
  push.columns = static_cast<std::uint32_t>(columns);
  push.scale = changes.scale;
  const std::uint32_t constants[2] = {four_bit_ ? 1U : 0U, engine_.split() ? 1U : 0U};
  const bool moves = kernel == Kernel::kBlockMoves;
  stream_.section(moves ? "group moves" : "block polish");
  stream_.dispatch(engine_.pipeline(kernel, kThreads, constants), push, workgroups(rows_));
  stream_.account(static_cast<double>(rows_ * columns) * (moves ? 2300.0 : 300.0));
  stream_.barrier();
}

}  // namespace cortiq::device
