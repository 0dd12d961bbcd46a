// stack.hpp: the sweep of one or more tensors that share a fold (q/k/v, gate/up), rows on top of each other, a chunk of
// rows at a time. Rows are independent, so neither the stack nor the chunks change a row's codes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/backend.hpp"
#include "damped.hpp"
#include "factor.hpp"

namespace cortiq::device {

/// Rows [first, first + rows) of tensor `tensor`, at row `stack_row` of the chunk.
struct StackPart {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t stack_row = 0;
};

/// One chunk of rows on the device, from weights to payload.
class StackSweep {
 public:
  using Weights = std::span<const ConstMatrixView<float>>;
  StackSweep(const Engine& engine, vulkan::Stream& stream, Pool& pool, const DeviceFactor& factor,
             const gptq::SweepOptions& options);

  /// Uploads the rows and chooses their ordinary ladders.
  void load(Weights weights, std::vector<StackPart> parts, float absmax);
  /// Rungs and codes, with the refit of the ladders where asked for.
  void sweep();
  void polish(const DampedHessian& h);
  /// Error and energy; with options.debias the ladders are moved. Adds to results[part.tensor].
  void measure(const DampedHessian& h, std::span<gptq::SweepResult> results);
  /// Writes the rows' places in the payloads, which have their full size.
  void pack(Weights weights, std::span<gptq::SweepResult> results);

 private:
  void gather(std::uint32_t what, const Operand* lines);
  void make_table();
  void pass();
  void update_work(const Operand& operand, const Operand& matrix, std::int64_t first,
                   std::int64_t columns, std::int64_t from, double alpha);
  /// What a product with H_d is for.
  enum class Purpose {
    kGradient,  ///< all bits
    kTwoForms,  ///< <Q,W>_H and <W,W>_H of read_sums()
    kOneForm,   ///< <W,W>_H alone: half of the work
  };
  void multiply_by(const DampedHessian& h, std::uint32_t what, float scale, Purpose purpose);
  struct Columns {
    std::int64_t first;
    std::int64_t count;
  };
  /// One pass of the polish with block_polish or block_moves.
  void move_pass(const DampedHessian& h, vulkan::Kernel kernel, const Operand& changes,
                 bool more_follow);
  void move_block(const DampedHessian& h, vulkan::Kernel kernel, const Operand& changes,
                  Columns block);
  [[nodiscard]] std::uint64_t work_column(std::int64_t column) const;
  void check_status(std::string_view what);
  void read_params();
  void set_host_params(std::span<const std::uint32_t> words);
  std::vector<float> read_sums();
  void debias_rows(std::span<const float> sums, std::vector<double>& errors);

  const Engine& engine_;
  vulkan::Stream& stream_;
  Pool& pool_;
  const DeviceFactor& factor_;
  gptq::SweepOptions options_;
  bool four_bit_;
  bool fixed_;
  std::int64_t n_, size_, groups_;
  std::int64_t rows_ = 0;
  std::int64_t padded_rows_ = 0;
  std::vector<StackPart> parts_;
  float absmax_ = 0;
  std::vector<codec::LadderParams> host_params_;
  vulkan::Buffer weights_, work_, codes_, rungs_, ordinary_, params_, table_, loss_, sums_, status_;
  vulkan::Buffer live_, natural_diagonal_, position_;  ///< by natural channel
  Operand errors_;  ///< of one block
};

/// Sweeps all tensors; results in their order. The device keeps bytes_of_rows() a row.
[[nodiscard]] std::vector<gptq::SweepResult> sweep_on_device(
    const Engine& engine, vulkan::Stream& stream, Pool& pool, const DeviceFactor& factor,
    StackSweep::Weights weights, const gptq::SweepOptions& options, std::int64_t chunk_rows = 0);

/// Device bytes that one row of a sweep of width n takes.
[[nodiscard]] std::uint64_t sweep_bytes_per_row(std::int64_t n);

}  // namespace cortiq::device
