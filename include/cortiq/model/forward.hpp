// forward.hpp: the model's forward pass on the CPU, layer by layer over many windows at once.
// Each layer is read once: its weights are decoded to f32, all windows pass through it, the weights
// are dropped. Routed experts are decoded one at a time, once for every 8192 rows. The hidden
// states of all windows are carried between layers (in memory, or in an unlinked file when they are
// large). Activations f32 (norm sums f64). Same bits for every Pool size and independent of
// batch_tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "cortiq/cmf/source.hpp"
#include "cortiq/model/arch.hpp"
#include "cortiq/model/head.hpp"
#include "cortiq/model/roles.hpp"
#include "cortiq/model/windows.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

/// Rows that a linear layer is about to read.
struct LinearInput {
  std::int64_t layer = 0;
  Role role = Role::kIn;
  std::int64_t expert = -1;
  ConstMatrixView<float> x;  ///< [rows, width]; valid during the call only
};

class LinearObserver {
 public:
  virtual ~LinearObserver() = default;
  [[nodiscard]] virtual bool wants(std::int64_t layer, Role role, std::int64_t expert) const = 0;
  /// Called on the thread that runs the layer; the rows of one (layer, role, expert) come in window
  /// order. An expert sees the rows that are routed to it.
  virtual void observe(const LinearInput& input) = 0;
};

/// [tokens, hidden] f32 of all windows, in memory or (spill folder given) in a mapped unlinked
/// file.
class HiddenStates {
 public:
  HiddenStates(std::int64_t tokens, std::int64_t hidden,
               const std::optional<std::filesystem::path>& spill_folder);
  ~HiddenStates();
  HiddenStates(HiddenStates&&) noexcept;
  HiddenStates& operator=(HiddenStates&&) noexcept;
  [[nodiscard]] MatrixView<float> view() const;
  /// Rows [first, first + count) are not needed soon: in a file they stop counting as memory of the
  /// process. Their values stay.
  void release(std::int64_t first, std::int64_t count) const noexcept;

 private:
  float* data_ = nullptr;
  std::int64_t tokens_ = 0;
  std::int64_t hidden_ = 0;
  std::size_t mapped_bytes_ = 0;
  bool in_file_ = false;
};

struct ForwardOptions {
  std::int64_t batch_tokens = 2048;  ///< windows are grouped to about this many rows per product
  std::optional<std::filesystem::path> spill_folder;  ///< hidden states go here instead of memory
};

class Forward {
 public:
  /// Keeps references to source and pool. Throws what read_arch throws.
  Forward(const cmf::Source& source, Pool& pool, ForwardOptions options = {});
  ~Forward();

  [[nodiscard]] const Arch& arch() const;

  /// Embedding rows (times the multiplier). A token id outside the table: Error{kInput} with id and
  /// count.
  [[nodiscard]] HiddenStates embed(const Windows& windows) const;

  /// Runs layer `layer` over all windows in place. on_batch(done_tokens) is called after each batch
  /// (progress, interrupt). A non-finite hidden state: Error{kNumeric} naming layer and window.
  void run_layer(std::int64_t layer, const Windows& windows, HiddenStates& states,
                 LinearObserver* observer,
                 const std::function<void(std::int64_t)>& on_batch = {}) const;

  /// Final norm; observer (may be null) sees the head's input (role kHead, layer == layers).
  /// sink(first_token, logits) receives logits [rows, vocab] of consecutive tokens, in order; soft
  /// cap applied. With an empty sink only the observer is served.
  using LogitSink = std::function<void(std::int64_t first_token, ConstMatrixView<float> logits)>;
  void run_head(const Windows& windows, const HiddenStates& states, LinearObserver* observer,
                const LogitSink& sink) const;

  /// Final norm and head for callers that want only some rows or only a part of the vocabulary at a
  /// time.
  [[nodiscard]] const Head& head() const;
  [[nodiscard]] Pool& pool() const;

  /// f32 bytes of the decoded weights of a layer plus the working panels for so many tokens, for
  /// memory plans.
  [[nodiscard]] std::uint64_t layer_memory_bytes(std::int64_t layer, std::int64_t tokens) const;
  /// Rows of the hidden states that are in use at a time.
  [[nodiscard]] std::int64_t rows_in_use(std::int64_t tokens) const;

 private:
  struct State;
  struct LayerJob;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::model
