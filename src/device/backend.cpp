// backend.cpp: gptq::Backend on Vulkan devices, with the host behind it.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <mutex>

#include "card.hpp"
#include "cortiq/device/devices.hpp"
#include "cortiq/gptq/fold.hpp"
#include "error_form.hpp"
#include "stack.hpp"

namespace cortiq::device {

namespace {

bool is_device_failure(const Error& error) {
  return error.kind() == ErrorKind::kDevice || error.kind() == ErrorKind::kDeviceLost ||
         error.kind() == ErrorKind::kOutOfMemory;
}

constexpr std::int64_t kWidest = 65536;      // channel numbers and positions are 32 bits, some products of two
constexpr std::int64_t kReservedRows = 2048;  // of a sweep; more rows are chunked to what is free

/// What a group takes: the fold at its peak, or the factor, the damped Hessian and rows of the sweep.
std::uint64_t group_bytes(std::int64_t n) {
  const FoldBytes fold = fold_bytes(n);
  const auto size = static_cast<std::uint64_t>(padded(n));
  return std::max(fold.peak, fold.kept + 4 * size * size + kReservedRows * sweep_bytes_per_row(n));
}

/// A factor on a card with the right to use it.
class HeldFactor final : public gptq::Factor {
 public:
  HeldFactor(Card& card, std::unique_ptr<Slots::Lease> lease, std::unique_ptr<DeviceFactor> factor)
      : card_(card), lease_(std::move(lease)), factor_(std::move(factor)) {
    lambda_used = factor_->lambda_used;
    lambda_tried = factor_->lambda_tried;
    identity = factor_->identity;
    dead_channels = factor_->dead_channels;
    order = factor_->order;
    backend = card.name();
  }
  [[nodiscard]] std::int64_t n() const override { return factor_->n(); }
  [[nodiscard]] Card& card() const { return card_; }
  [[nodiscard]] const DeviceFactor& on_device() const { return *factor_; }
  /// Rows to sweep at once: those that its memory was reserved for, and more if nobody else has it.
  [[nodiscard]] std::int64_t rows_at_once(std::int64_t rows) const {
    const std::int64_t more = padded(rows) - kReservedRows;
    if (more <= 0) return rows;
    const std::uint64_t row_bytes = sweep_bytes_per_row(n());
    const std::uint64_t granted = lease_->extend(static_cast<std::uint64_t>(more) * row_bytes);
    const auto extra = static_cast<std::int64_t>(granted / row_bytes);
    return std::min(rows, kReservedRows + extra / layout::kTile * layout::kTile);
  }

 private:
  Card& card_;
  std::unique_ptr<Slots::Lease> lease_;
  std::unique_ptr<DeviceFactor> factor_;
};

class VulkanBackend final : public DeviceBackend {
 public:
  VulkanBackend(const Choice& choice, const BackendOptions& options, Pool& pool, Log& log)
      : pool_(pool), log_(log), host_(gptq::make_host_backend(pool)) {
    const auto instance = vulkan::Instance::open();
    const auto adapters = instance->adapters();
    for (const DeviceInfo& device : choice.devices) {
      const auto index = static_cast<std::size_t>(device.index);
      if (index >= adapters.size())
        fail(ErrorKind::kDevice, "device {}: gone since it was listed; see `cortiq-quant devices`, or use --device cpu", device.index);
      cards_.push_back(std::make_unique<Card>(
          vulkan::Context::open(instance, adapters[index], {options.cache_folder, options.memory_limit}),
          options));
    }
  }

  std::unique_ptr<gptq::Factor> fold(ConstMatrixView<double> h_upper,
                                     const gptq::FoldOptions& options) override {
    std::string reason;
    if (options.host_only) {
      reason = "what is asked for its codec is done on the host";
    } else if (auto factor = fold_on_card(h_upper, options, reason)) {
      ++device_groups_;
      return factor;
    }
    auto factor = host_->fold(h_upper, options);
    factor->note = reason;
    ++host_groups_;
    const std::lock_guard lock(mutex_);
    reasons_.push_back(std::move(reason));
    return factor;
  }

  gptq::SweepResult sweep(ConstMatrixView<float> w, ConstMatrixView<double> h_upper,
                          const gptq::Factor& factor, const gptq::SweepOptions& options) override {
    const gptq::SweepJob job{"", w, options};
    return std::move(sweep_all(std::span(&job, 1), h_upper, factor).front());
  }

  std::vector<gptq::SweepResult> sweep_group(std::span<const gptq::SweepJob> jobs,
                                             ConstMatrixView<double> h_upper,
                                             const gptq::Factor& factor) override {
    return sweep_all(jobs, h_upper, factor);
  }

  double error_of(ConstMatrixView<float> e, ConstMatrixView<double> h_upper,
                  const gptq::Factor& factor) override {
    const auto* held = dynamic_cast<const HeldFactor*>(&factor);
    if (held == nullptr || held->card().lost()) return host_->error_of(e, h_upper, factor);
    Card& card = held->card();
    try {
      Card::Borrowed borrowed(card);
      const double error = error_on_device(card.engine(), borrowed.stream(), pool_, held->on_device(), e);
      borrowed.done();
      return error;
    } catch (const Error& error) {
      if (!is_device_failure(error)) throw;
      report_failure(card, error);
      return host_->error_of(e, h_upper, factor);
    }
  }

  BackendUse use() const override {
    BackendUse use;
    use.device_groups = device_groups_;
    use.host_groups = host_groups_;
    for (const auto& card : cards_) {
      use.device_seconds += card->busy_seconds();
      use.peak_bytes = std::max(use.peak_bytes, card->engine().context().peak_bytes());
    }
    const std::lock_guard lock(mutex_);
    use.host_reasons = reasons_;
    return use;
  }

  void inject_out_of_memory(int after) override {
    cards_.front()->engine().context().inject_out_of_memory(after);
  }
  void inject_device_lost(int after) override {
    cards_.front()->engine().context().inject_device_lost(after);
  }

 private:
  /// The working card with the fewest groups.
  Card* choose_card() {
    Card* best = nullptr;
    for (const auto& card : cards_) {
      if (card->lost()) continue;
      if (best == nullptr || card->slots().in_use() < best->slots().in_use()) best = card.get();
    }
    return best;
  }

  /// Null: the host's turn, `reason` says why.
  std::unique_ptr<gptq::Factor> fold_on_card(ConstMatrixView<double> h_upper,
                                             const gptq::FoldOptions& options, std::string& reason) {
    Card* card = choose_card();
    if (card == nullptr) {
      reason = "the device was lost";
      return nullptr;
    }
    const std::int64_t n = h_upper.rows();
    const std::uint64_t bytes = group_bytes(n);
    if (n > kWidest || !card->slots().can_ever_fit(bytes)) {
      reason = n > kWidest ? fmt::format("{} channels, the device does {}", n, kWidest)
                           : fmt::format("it needs {} MB, the device has {} MB free", bytes / 1000000,
                                         card->slots().total_bytes() / 1000000);
      return nullptr;
    }
    auto lease = card->slots().acquire(bytes);
    if (card->lost()) {
      reason = "the device was lost";
      return nullptr;
    }
    try {
      Card::Borrowed borrowed(*card);
      FoldOutcome outcome = fold_on_device(card->engine(), borrowed.stream(), pool_, h_upper, options);
      borrowed.done();
      if (outcome.factor)
        return std::make_unique<HeldFactor>(*card, std::move(lease), std::move(outcome.factor));
      reason = outcome.reason;
    } catch (const Error& error) {
      if (!is_device_failure(error)) throw;
      report_failure(*card, error);
      reason = error.what();
    }
    return nullptr;
  }

  std::vector<gptq::SweepResult> sweep_all(std::span<const gptq::SweepJob> jobs,
                                           ConstMatrixView<double> h_upper,
                                           const gptq::Factor& factor) {
    const auto* held = dynamic_cast<const HeldFactor*>(&factor);
    if (held == nullptr) return host_->sweep_group(jobs, h_upper, factor);
    Card& card = held->card();
    std::string reason = "the device was lost";
    if (!card.lost()) {
      try {
        return sweep_on_card(card, jobs, *held);
      } catch (const Error& error) {
        if (!is_device_failure(error)) throw;
        report_failure(card, error);
        reason = error.what();
      }
    }
    return sweep_again_on_host(jobs, h_upper, held->on_device(), std::move(reason));
  }

  /// Tensors of equal options are stacked.
  std::vector<gptq::SweepResult> sweep_on_card(Card& card, std::span<const gptq::SweepJob> jobs,
                                               const HeldFactor& held) {
    std::vector<gptq::SweepResult> results(jobs.size());
    std::vector<bool> done(jobs.size(), false);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (done[i]) continue;
      std::vector<ConstMatrixView<float>> stack;
      std::vector<std::size_t> members;
      for (std::size_t k = i; k < jobs.size(); ++k) {
        if (done[k] || !(jobs[k].options == jobs[i].options)) continue;
        done[k] = true;
        stack.push_back(jobs[k].w);
        members.push_back(k);
      }
      std::int64_t rows = 0;
      for (const auto& w : stack) rows += w.rows();
      const std::int64_t chunk = held.rows_at_once(rows);
      Card::Borrowed borrowed(card);
      auto swept = with_context(fmt::format("tensor {}", jobs[i].name), [&] {
        return sweep_on_device(card.engine(), borrowed.stream(), pool_, held.on_device(), stack, jobs[i].options,
                               chunk);
      });
      borrowed.done();
      for (std::size_t k = 0; k < members.size(); ++k) results[members[k]] = std::move(swept[k]);
    }
    return results;
  }

  /// The factor is gone with the device: the host folds with the damping that was used.
  std::vector<gptq::SweepResult> sweep_again_on_host(std::span<const gptq::SweepJob> jobs,
                                                     ConstMatrixView<double> h_upper,
                                                     const DeviceFactor& factor, std::string reason) {
    gptq::FoldOptions options;
    options.lambda = factor.lambda_used;
    options.base = factor.scaling.base;
    options.order = factor.order;
    options.keep_damped = std::any_of(jobs.begin(), jobs.end(),
                                      [](const gptq::SweepJob& job) { return job.options.polish > 0; });
    const auto again = host_->fold(h_upper, options);
    --device_groups_;
    ++host_groups_;
    {
      const std::lock_guard lock(mutex_);
      reasons_.push_back(std::move(reason));
    }
    return host_->sweep_group(jobs, h_upper, *again);
  }

  void report_failure(Card& card, const Error& error) {
    const bool lost = error.kind() == ErrorKind::kDeviceLost;
    if (lost) card.set_lost();
    const std::lock_guard lock(mutex_);
    if (!warned_[&card].insert(error.kind()).second) return;
    log_.warn("{}; {}", error.what(),
              lost ? "the rest of the run is done on the host" : "this group is done on the host");
  }

  Pool& pool_;
  Log& log_;
  std::unique_ptr<gptq::Backend> host_;
  std::vector<std::unique_ptr<Card>> cards_;
  std::atomic<std::int64_t> device_groups_{0};
  std::atomic<std::int64_t> host_groups_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> reasons_;
  std::map<const Card*, std::set<ErrorKind>> warned_;
};

}  // namespace

std::unique_ptr<DeviceBackend> make_device_backend(const Choice& choice, const BackendOptions& options,
                                                   Pool& pool, Log& log) {
  CORTIQ_ASSERT(!choice.devices.empty());
  return std::make_unique<VulkanBackend>(choice, options, pool, log);
}

}  // namespace cortiq::device
