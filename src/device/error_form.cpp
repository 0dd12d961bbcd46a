#include "error_form.hpp"

#include <algorithm>
#include <cstring>

#include "damped.hpp"
#include "stack.hpp"

namespace cortiq::device {

namespace {

using vulkan::Kernel;
constexpr std::uint32_t kThreads = 256;
constexpr std::int64_t kMostRows = 2048;  // what the backend has reserved memory for
constexpr std::int64_t kGatherColumns = 1024;

/// Buffers of one chunk of rows.
struct Chunk {
  vulkan::Buffer errors, product, sums, no_rungs, codes, table;
  Operand lines;
};

void record(const Engine& engine, vulkan::Stream& stream, const DeviceFactor& factor,
            const DampedHessian& h, const Chunk& chunk, std::int64_t rows) {
  layout::GatherPush gather{};
  gather.weights = chunk.errors.address();
  gather.channel = factor.channel.address();
  gather.out_lines = chunk.lines.line(0, 0);
  gather.rows = static_cast<std::uint32_t>(rows);
  gather.padded_rows = static_cast<std::uint32_t>(padded(rows));
  gather.n = static_cast<std::uint32_t>(factor.n());
  gather.size = static_cast<std::uint32_t>(factor.size);
  gather.scale = chunk.lines.scale;
  const std::uint32_t what[3] = {1, engine.split() ? 1U : 0U, 1};
  stream.dispatch(engine.pipeline(Kernel::kWeightsGather, kThreads, what), gather,
                  static_cast<std::uint64_t>(padded(rows)) *
                      static_cast<std::uint64_t>((factor.size + kGatherColumns - 1) / kGatherColumns));
  stream.barrier();
  Product p;
  p.a = &chunk.lines;
  p.b = &h.lines;
  p.c = chunk.product.address();
  p.c_stride = factor.size;
  p.m = padded(rows);
  p.n = factor.size;
  p.k = factor.size;
  p.high_only = true;
  engine.multiply_half(stream, p);  // of the sums only <E,E>_H is read
  stream.barrier();
  // Groups without a rung have Q = 0, so that <W,W>_H of row_sums is the form wanted.
  layout::RowSumsPush sums{};
  sums.weights = chunk.errors.address();
  sums.product = chunk.product.address();
  sums.channel = factor.channel.address();
  sums.inverse = factor.inverse.address();
  sums.codes = chunk.codes.address();
  sums.rungs = chunk.no_rungs.address();
  sums.table = chunk.table.address();
  sums.sums = chunk.sums.address();
  sums.rows = static_cast<std::uint32_t>(rows);
  sums.n = static_cast<std::uint32_t>(factor.n());
  sums.size = static_cast<std::uint32_t>(factor.size);
  sums.lambda = static_cast<float>(factor.scaling.lambda);
  const std::uint32_t four_bit[1] = {1};
  stream.dispatch(engine.pipeline(Kernel::kRowSums, kThreads, four_bit), sums,
                  static_cast<std::uint64_t>(rows));
}

}  // namespace

double error_on_device(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                       const DeviceFactor& factor, ConstMatrixView<float> e) {
  const std::int64_t n = factor.n();
  const std::int64_t groups = n / layout::kChunk;
  const DampedHessian h = make_damped_hessian(engine, stream, factor);
  const float scale = split_scale(static_cast<double>(largest_magnitude(e, pool)), 1e6F);
  stream.barrier();
  double total = 0;
  for (std::int64_t first = 0; first < e.rows(); first += kMostRows) {
    const std::int64_t rows = std::min(kMostRows, e.rows() - first);
    Chunk chunk;
    chunk.errors = engine.device_buffer(4 * rows * n);
    chunk.product = engine.device_buffer(4 * padded(rows) * factor.size);
    chunk.lines = engine.make_operand(padded(rows), factor.size, scale);
    chunk.sums = engine.device_buffer(16 * rows);
    chunk.no_rungs = engine.device_buffer(4 * rows * groups);
    chunk.codes = engine.device_buffer(16 * rows * groups);
    chunk.table = engine.device_buffer(128 * rows);
    stream.fill(chunk.no_rungs, 0, chunk.no_rungs.bytes(), layout::kNoRung);
    Upload upload(engine, stream, pool);
    upload.rows(
        chunk.errors, rows, [n](std::int64_t) { return 4U * static_cast<std::uint64_t>(n); },
        [&](std::int64_t r, std::byte* out) {
          std::memcpy(out, e.row(first + r), 4 * static_cast<std::size_t>(n));
        });
    stream.barrier();
    record(engine, stream, factor, h, chunk, rows);
    std::vector<float> sums(static_cast<std::size_t>(4 * rows));
    download(engine, stream, chunk.sums, 0, std::as_writable_bytes(std::span(sums)));
    for (std::int64_t r = 0; r < rows; ++r)
      total += static_cast<double>(sums[static_cast<std::size_t>(4 * r + 3)]);
  }
  return total * factor.scaling.base;
}

}  // namespace cortiq::device
