// backend.hpp: the two steps of GPTQ that host and device implement: fold (H -> U) and sweep (W, U
// -> codes). Matrices: H [n,n] f64 undamped sums (upper triangle valid); W [rows,n] f32; U upper
// with H_d^-1 = U^T U in elimination order. Host bytes do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/gptq/options.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::gptq {

/// Result of a fold; stays where it was made.
class Factor {
 public:
  virtual ~Factor() = default;
  [[nodiscard]] virtual std::int64_t n() const = 0;

  double lambda_used = 0;            ///< relative damping that factored
  std::vector<double> lambda_tried;  ///< all tries, the last one is lambda_used unless identity
  bool identity =
      false;  ///< nothing factored up to lambda 10, or (nearly) all channels dead: plain rounding
  std::int64_t dead_channels = 0;
  Order order = Order::kNatural;
  std::string backend = "host";  ///< where it was made, for the report
  std::string note;              ///< why it is not where the user would expect it; empty: it is
};

struct SweepResult {
  std::vector<std::byte> payload;  ///< CMF payload of the target dtype
  double output_error = 0;   ///< tr((W-Q) H (W-Q)^T), undamped H, f64; Q before its rounding to f32
  double output_energy = 0;  ///< tr(W H W^T)
  std::int64_t dead_groups = 0;  ///< groups stored as all zero
};

/// One tensor of a group that shares a fold.
struct SweepJob {
  std::string_view name;  ///< for messages
  ConstMatrixView<float> w;
  SweepOptions options;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// h: finite (checked by the caller). Never throws for an H that does not factor: see
  /// Factor::identity.
  [[nodiscard]] virtual std::unique_ptr<Factor> fold(ConstMatrixView<double> h_upper,
                                                     const FoldOptions& options) = 0;
  /// w: original weights, finite. h_upper: the same H (metrics, debias). options.order must equal
  /// factor.order.
  [[nodiscard]] virtual SweepResult sweep(ConstMatrixView<float> w, ConstMatrixView<double> h_upper,
                                          const Factor& factor, const SweepOptions& options) = 0;
  /// Sweeps the tensors of a group; results in their order. The same codes as sweep() of each. An Error names the tensor.
  [[nodiscard]] virtual std::vector<SweepResult> sweep_group(std::span<const SweepJob> jobs,
                                                             ConstMatrixView<double> h_upper,
                                                             const Factor& factor);
  /// tr(E H E^T) of the errors `e` [rows,n] of a tensor that was not swept, undamped H; for reports.
  [[nodiscard]] virtual double error_of(ConstMatrixView<float> e, ConstMatrixView<double> h_upper,
                                        const Factor& factor) = 0;
};

/// f64 on the CPU. Keeps a reference to pool.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(Pool& pool);

/// tr(E H E^T) and tr(W H W^T) for E = W - decoded(payload); used for rounded tensors and by
/// `compare`.
struct OutputError {
  double error = 0;
  double energy = 0;
};
/// The error alone, at half the cost.
[[nodiscard]] double error_form(ConstMatrixView<float> w, ConstMatrixView<float> quantized,
                                ConstMatrixView<double> h_upper, Pool& pool);
[[nodiscard]] OutputError output_error(ConstMatrixView<float> w, ConstMatrixView<float> quantized,
                                       ConstMatrixView<double> h_upper, Pool& pool);

}  // namespace cortiq::gptq
