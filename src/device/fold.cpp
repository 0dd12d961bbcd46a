// fold.cpp: the fold as a schedule of kernels. Blocks of 128 columns inside left-looking panels of 1024: the factor's
// product with all columns left of the panel is formed once per panel (long K). The inverse follows one block behind and
// shares the barriers of the factor, so that its products fill the device while one workgroup factors a diagonal block.
// With the slower f32 products of matrices of moderate width, the columns behind the next block get their share of a block
// in that time too (lookahead), so that a block waits for one short product only.
#include <algorithm>
#include <cstring>

#include "factor.hpp"
#include "scaling.hpp"

namespace cortiq::device {

namespace {

using vulkan::Kernel;

constexpr std::int64_t kPanel = 1024;          // columns that share one product with all columns before them
constexpr std::int64_t kSmallPanel = 512;     // of small matrices: short products wait less
constexpr std::int64_t kSmallWidth = 8192, kSmallWidthPlain = 2048;
constexpr std::int64_t kLookaheadWidth = 20480;  // measured on an H200: gains at 17408, loses at 28672
constexpr std::int64_t kBlock = layout::kTile;
constexpr float kFactorScale = 1024.0F;       // |L| <= 1
constexpr float kInverseScaleLimit = 1024.0F;
constexpr float kUScaleLimit = 4096.0F;
constexpr std::uint32_t kThreads = 256;

/// Buffers that live only during the fold.
struct Work {
  std::int64_t size = 0;
  vulkan::Buffer a;         ///< [size,size] equilibrated H, then the panels of L before their trsm
  vulkan::Buffer x;         ///< [size,size] L^-1
  Operand l;                ///< rows of L
  Operand xt;               ///< rows of X^T
  vulkan::Buffer inverses;  ///< [size/128][128][128]
  vulkan::Buffer channel;   ///< reversed
  vulkan::Buffer inverse;   ///< reversed
  vulkan::Buffer status;    ///< bad pivot, values out of range
  [[nodiscard]] std::uint64_t element(const vulkan::Buffer& m, std::int64_t r, std::int64_t c) const {
    return m.address() + 4U * static_cast<std::uint64_t>(r * size + c);
  }
};

class Schedule {
 public:
  Schedule(const Engine& engine, vulkan::Stream& stream, Work& work, std::int64_t panel)
      : engine_(engine),
        stream_(stream),
        w_(work),
        panel_(panel > 0 ? panel : default_panel()),
        lookahead_(!engine.split() && work.size <= kLookaheadWidth),
        split_{engine.split() ? 1U : 0U} {}

  void run() {
    const std::int64_t n = w_.size;
    stream_.fill(w_.x, 0, w_.x.bytes(), 0);
    stream_.fill(w_.xt.lines, 0, w_.xt.lines.bytes(), 0);
    stream_.fill(w_.status, 0, w_.status.bytes(), 0);
    stream_.barrier();
    for (std::int64_t panel = 0; panel < n; panel += panel_) {
      const std::int64_t width = std::min(panel_, n - panel);
      if (panel > 0) {
        stream_.section("panel product");
        update(panel, 0, panel, width);
        accumulate(panel, width, 0, panel);
        stream_.barrier();
      }
      factor_panel(panel, width);
    }
  }

 private:
  /// Factors the columns of a panel that all columns before it have updated, and inverts as far.
  void factor_panel(std::int64_t panel, std::int64_t width) {
    for (std::int64_t c = panel; c < panel + width; c += kBlock) {
      if (c > panel) {
        stream_.section("block product");
        const std::int64_t from = lookahead_ ? c - kBlock : panel;
        update(c, from, c - from, kBlock);
        stream_.barrier();
      }
      stream_.section("diagonal block");
      factor_block(c);
      if (c > panel) {
        if (lookahead_) update(c + kBlock, c - kBlock, kBlock, panel + width - (c + kBlock));
        accumulate(c, kBlock, panel, c - panel);
      }
      stream_.barrier();
      stream_.section("solve");
      solve_below(c);
      finish_inverse(c);
      stream_.barrier();
    }
  }

  /// A[c.., c..c+width) -= L[c.., k0..k0+depth) L[c..c+width, k0..)^T
  void update(std::int64_t c, std::int64_t k0, std::int64_t depth, std::int64_t width) {
    Product p;
    p.a = p.b = &w_.l;
    p.a_row = p.b_row = c;
    p.a_chunk = p.b_chunk = k0 / layout::kChunk;
    p.c = w_.element(w_.a, c, c);
    p.c_stride = w_.size;
    p.m = w_.size - c;
    p.n = width;
    p.k = depth;
    p.flags = layout::kGemmAdd | layout::kGemmLowerOnly;
    p.row0 = p.col0 = c;
    p.alpha = -1;
    p.from_c = true;
    engine_.multiply(stream_, p);
  }

  /// X[c..c+rows, 0..k0+depth) += L[c..c+rows, k0..k0+depth) X[k0..k0+depth, :]
  void accumulate(std::int64_t c, std::int64_t rows, std::int64_t k0, std::int64_t depth) {
    Product p;
    p.a = &w_.l;
    p.a_row = c;
    p.a_chunk = p.b_chunk = k0 / layout::kChunk;
    p.b = &w_.xt;
    p.c = w_.element(w_.x, c, 0);
    p.c_stride = w_.size;
    p.m = rows;
    p.n = k0 + depth;
    p.k = depth;
    p.flags = layout::kGemmAdd | layout::kGemmTriangularB;
    p.k0 = k0;
    p.from_c = true;
    engine_.multiply(stream_, p);
  }

  [[nodiscard]] std::int64_t default_panel() const {
    return w_.size <= (engine_.split() ? kSmallWidth : kSmallWidthPlain) ? kSmallPanel : kPanel;
  }

  [[nodiscard]] std::uint64_t inverse_block(std::int64_t c) const {
    return w_.inverses.address() + 4U * static_cast<std::uint64_t>(c * kBlock);
  }

  void factor_block(std::int64_t c) {
    layout::PotrfPush push{};
    push.a = w_.element(w_.a, c, c);
    push.inverse = inverse_block(c);
    push.status = w_.status.address();
    push.stride = static_cast<std::uint32_t>(w_.size);
    push.column = static_cast<std::uint32_t>(c);
    stream_.dispatch(engine_.pipeline(Kernel::kTilePotrf, kThreads), push, 1);
  }

  void solve_below(std::int64_t c) {
    const std::int64_t rows = w_.size - c - kBlock;
    if (rows == 0) return;
    layout::TrsmPush push{};
    push.a = w_.element(w_.a, c + kBlock, c);
    push.inverse = inverse_block(c);
    push.out_lines = w_.l.line(c + kBlock, c / layout::kChunk);
    push.stride = static_cast<std::uint32_t>(w_.size);
    push.out_rows = static_cast<std::uint32_t>(w_.size);
    push.groups = static_cast<std::uint32_t>(rows / 64);
    push.scale = w_.l.scale;
    stream_.dispatch(engine_.pipeline(Kernel::kPanelTrsm, kThreads, split_), push, push.groups);
    stream_.account(2.0 * static_cast<double>(rows) * kBlock * kBlock);
  }

  void finish_inverse(std::int64_t c) {
    layout::FinishPush push{};
    push.x = w_.element(w_.x, c, 0);
    push.inverse = inverse_block(c);
    push.out_lines = w_.xt.line(0, c / layout::kChunk);
    push.stride = static_cast<std::uint32_t>(w_.size);
    push.out_rows = static_cast<std::uint32_t>(w_.size);
    push.column = static_cast<std::uint32_t>(c);
    push.groups = static_cast<std::uint32_t>((c + kBlock) / 64);
    push.scale = w_.xt.scale;
    stream_.dispatch(engine_.pipeline(Kernel::kInverseFinish, kThreads, split_), push,
                     push.groups);
    stream_.account(2.0 * static_cast<double>(c) * kBlock * kBlock);
  }

  const Engine& engine_;
  vulkan::Stream& stream_;
  Work& w_;
  std::int64_t panel_;
  bool lookahead_;
  std::uint32_t split_[1];
};

void build(const Engine& engine, vulkan::Stream& stream, const DeviceFactor& factor, Work& work) {
  layout::BuildPush push{};
  push.h = factor.h.address();
  push.a = work.a.address();
  push.channel = work.channel.address();
  push.inverse = work.inverse.address();
  push.n = static_cast<std::uint32_t>(factor.n());
  push.size = static_cast<std::uint32_t>(work.size);
  push.tiles = push.size / 32;
  push.base_inverse = static_cast<float>(1.0 / factor.scaling.base);
  stream.section("build");
  stream.dispatch(engine.pipeline(Kernel::kHessianBuild, kThreads), push,
                  std::uint64_t{push.tiles} * push.tiles);
}

void finish_factor(const Engine& engine, vulkan::Stream& stream, DeviceFactor& factor, Work& work) {
  layout::FactorPush push{};
  push.x = work.x.address();
  push.inverse = work.inverse.address();
  push.out_lines = factor.u.line(0, 0);
  push.band = factor.band.address();
  push.status = work.status.address();
  push.n = static_cast<std::uint32_t>(factor.n());
  push.size = static_cast<std::uint32_t>(work.size);
  push.block = static_cast<std::uint32_t>(kBlockColumns);
  push.tiles = push.size / 32;
  push.scale = factor.u.scale;
  const std::uint32_t split[1] = {engine.split() ? 1U : 0U};
  stream.section("finish");
  stream.dispatch(engine.pipeline(Kernel::kFactorFinish, kThreads, split), push,
                  std::uint64_t{push.tiles} * push.tiles);
}

vulkan::Buffer upload_hessian(const Engine& engine, Upload& upload, ConstMatrixView<double> h) {
  const std::int64_t n = h.rows();
  vulkan::Buffer packed = engine.device_buffer(4 * (n * (n + 1) / 2));
  upload.rows(
      packed, n, [n](std::int64_t r) { return 4U * static_cast<std::uint64_t>(n - r); },
      [&](std::int64_t r, std::byte* out) {
        const double* row = h.row(r) + r;
        for (std::int64_t j = 0; j < n - r; ++j) {
          const auto value = static_cast<float>(row[j]);
          std::memcpy(out + 4 * j, &value, sizeof value);
        }
      });
  return packed;
}

/// One try with the damping of factor.scaling; empty on success, else why not.
std::string try_factor(const Engine& engine, vulkan::Stream& stream, Upload& upload,
                       DeviceFactor& factor, FoldTimes* times) {
  Work work;
  work.size = factor.size;
  const std::int64_t size = factor.size;
  std::vector<float> reversed(factor.scaling.inverse.rbegin(), factor.scaling.inverse.rend());
  work.inverse = upload.vector(reversed);
  work.channel = upload.vector(marked_channels(factor.scaling, true));
  work.a = engine.device_buffer(4 * size * size);
  work.x = engine.device_buffer(4 * size * size);
  work.l = engine.make_operand(size, size, kFactorScale);
  const double bound = std::sqrt(factor.scaling.largest_ratio);
  work.xt = engine.make_operand(size, size, bound > 0 ? split_scale(bound, kInverseScaleLimit) : 64);
  work.inverses = engine.device_buffer(4 * size * kBlock);
  work.status = engine.device_buffer(8);
  if (times != nullptr) stream.finish();
  const double before = stream.busy_seconds();
  build(engine, stream, factor, work);
  stream.barrier();
  Schedule(engine, stream, work, times != nullptr ? times->panel : 0).run();
  // A is spent: its memory is what U needs.
  factor.u.rows = size;
  factor.u.chunks = size / layout::kChunk;
  factor.u.lines = std::move(work.a);
  const double u_bound = factor.scaling.lambda > 0 ? 1.0 / std::sqrt(factor.scaling.lambda) : 0.0;
  factor.u.scale = engine.split() ? split_scale(u_bound, kUScaleLimit) : 1.0F;
  factor.band = engine.device_buffer(4 * (size + kBlockColumns) * kBlockColumns);
  finish_factor(engine, stream, factor, work);
  if (times != nullptr) {
    stream.finish();
    times->device_seconds = stream.busy_seconds() - before;
  }
  std::uint32_t status[2] = {0, 0};
  download(engine, stream, work.status, 0, std::as_writable_bytes(std::span(status)));
  if (status[0] != 0) return fmt::format("pivot {} is not positive", status[0] - 1);
  if (status[1] != 0) return fmt::format("{} values of U leave the range of f32", status[1]);
  return {};
}

}  // namespace

FoldBytes fold_bytes(std::int64_t n) {
  const auto size = static_cast<std::uint64_t>(padded(n));
  const std::uint64_t square = 4 * size * size;
  const std::uint64_t strips = 4 * size * (layout::kTile + kBlockColumns) + (1U << 20U);
  const std::uint64_t packed = 2 * static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(n + 1);
  return {4 * square + packed + strips, square + packed + strips};
}

FoldOutcome fold_on_device(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                           ConstMatrixView<double> h_upper, const gptq::FoldOptions& options,
                           FoldTimes* times) {
  auto factor = std::make_unique<DeviceFactor>();
  factor->engine = &engine;
  factor->order = options.order;
  factor->scaling = make_scaling(h_upper, options);
  factor->size = padded(h_upper.rows());
  factor->dead_channels = factor->scaling.facts.dead_channels;
  if (factor->scaling.facts.mostly_dead) return {nullptr, "nearly all channels are dead"};
  if (!factor->scaling.facts.dead_rows_zero)
    return {nullptr, "a channel with a zero diagonal is correlated with others"};
  Upload upload(engine, stream, pool);
  stream.section("upload");
  factor->h = upload_hessian(engine, upload, h_upper);
  double lambda = factor->scaling.lambda;
  for (;;) {
    factor->lambda_tried.push_back(lambda);
    const std::string problem = try_factor(engine, stream, upload, *factor, times);
    if (problem.empty()) break;
    // With damping a failure means that f32 is not enough, not that the matrix is singular.
    const auto next = lambda == 0 ? gptq::next_lambda(lambda) : std::nullopt;
    if (!next) return {nullptr, fmt::format("f32 cannot factor it at damping {}: {}", lambda, problem)};
    lambda = *next;
    set_damping(factor->scaling, h_upper, lambda);
  }
  factor->lambda_used = lambda;
  factor->channel = upload.vector(marked_channels(factor->scaling, false));
  factor->inverse = upload.vector(factor->scaling.inverse);
  factor->diagonal = upload.vector(factor->scaling.diagonal);
  stream.finish();  // the staging buffers go
  return {std::move(factor), {}};
}

}  // namespace cortiq::device
