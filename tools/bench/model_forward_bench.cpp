// model_forward_bench.cpp: forward pass and Gram sums of a few layers shaped like a 135M llama,
// against the f32 product rate of the same machine in the same run. Options: threads (default all),
// layers (2), tokens (8192), window (512).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cortiq/linalg/gemm.hpp"
#include "cortiq/linalg/gram.hpp"
#include "cortiq/model/forward.hpp"
#include "cortiq/model/layer_runner.hpp"
#include "cortiq/model/score.hpp"
#include "cortiq/support/memory.hpp"

namespace {

using namespace cortiq;

constexpr std::int64_t kHidden = 576;
constexpr std::int64_t kHeads = 9;
constexpr std::int64_t kKvHeads = 3;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kInner = 1536;
constexpr std::int64_t kVocab = 49152;
constexpr std::int64_t kBatch = 2048;

/// Small pseudo-random f32 tensors, made on demand.
class Synthetic final : public cmf::Source {
 public:
  explicit Synthetic(std::int64_t layers) {
    cmf::Json json;
    json["arch"] = {{"arch_name", "llama"},
                    {"hidden_size", kHidden},
                    {"num_layers", layers},
                    {"num_attention_heads", kHeads},
                    {"num_kv_heads", kKvHeads},
                    {"head_dim", kHeadDim},
                    {"vocab_size", kVocab},
                    {"max_position_embeddings", 8192},
                    {"rms_norm_eps", 1e-5},
                    {"rope_theta", 100000.0},
                    {"tie_word_embeddings", true},
                    {"layer_types",
                     std::vector<std::string>(static_cast<std::size_t>(layers), "FullAttention")}};
    header_ = cmf::Header(json);
    add("model.embed_tokens.weight", {kVocab, kHidden});
    for (std::int64_t i = 0; i < layers; ++i) {
      add(model::layer_tensor(i, "input_layernorm.weight"), {kHidden});
      add(model::layer_tensor(i, "post_attention_layernorm.weight"), {kHidden});
      add(model::layer_tensor(i, "self_attn.q_proj.weight"), {kHeads * kHeadDim, kHidden});
      add(model::layer_tensor(i, "self_attn.k_proj.weight"), {kKvHeads * kHeadDim, kHidden});
      add(model::layer_tensor(i, "self_attn.v_proj.weight"), {kKvHeads * kHeadDim, kHidden});
      add(model::layer_tensor(i, "self_attn.o_proj.weight"), {kHidden, kHeads * kHeadDim});
      add(model::layer_tensor(i, "mlp.gate_proj.weight"), {kInner, kHidden});
      add(model::layer_tensor(i, "mlp.up_proj.weight"), {kInner, kHidden});
      add(model::layer_tensor(i, "mlp.down_proj.weight"), {kHidden, kInner});
    }
    add("model.norm.weight", {kHidden});
  }
  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::filesystem::path> files() const override { return {}; }
  const cmf::Header& header() const override { return header_; }
  const std::vector<cmf::TensorInfo>& tensors() const override { return infos_; }
  std::optional<std::size_t> find(std::string_view name) const override {
    const auto it = index_.find(std::string(name));
    return it == index_.end() ? std::nullopt : std::optional(it->second);
  }
  cmf::Payload payload(std::size_t index) const override {
    std::vector<std::byte> bytes(infos_[index].nbytes);
    std::uint32_t state = static_cast<std::uint32_t>(index) + 1;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      state = state * 1664525U + 1013904223U;
      store_le(bytes.data() + i, static_cast<float>(static_cast<std::int32_t>(state)) * 2e-11F);
    }
    return cmf::Payload(std::move(bytes));
  }
  void release(std::size_t) const override {}
  ByteSpan vocab() const override { return {}; }
  ByteSpan masks() const override { return {}; }
  ByteSpan mask_index() const override { return {}; }

 private:
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    cmf::TensorInfo info{name, cmf::DType::kF32, std::move(shape), 0, std::nullopt};
    info.nbytes = static_cast<std::uint64_t>(info.elements()) * sizeof(float);
    index_[name] = infos_.size();
    infos_.push_back(std::move(info));
  }
  std::filesystem::path path_ = "synthetic";
  cmf::Header header_;
  std::vector<cmf::TensorInfo> infos_;
  std::map<std::string, std::size_t> index_;
};

/// Best of `repeats`. With one thread CPU seconds, so that other work on the machine disturbs
/// little, else wall clock.
double seconds(const Pool& pool, int repeats, const std::function<void()>& fn) {
  const auto now = [&] {
    if (pool.threads() == 1) return process_cpu_seconds();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double start = now();
    fn();
    best = std::min(best, now() - start);
  }
  return best;
}

/// H += x^T x for every role, as a calibration does.
class GramObserver final : public model::LinearObserver {
 public:
  explicit GramObserver(Pool& pool) : pool_(pool) {}
  bool wants(std::int64_t, model::Role, std::int64_t) const override { return true; }
  void observe(const model::LinearInput& input) override {
    std::vector<double>& h = sums_[input.role];
    h.resize(static_cast<std::size_t>(input.x.cols() * input.x.cols()));
    linalg::gram_accumulate(input.x, {h.data(), input.x.cols(), input.x.cols()}, pool_);
  }

 private:
  Pool& pool_;
  std::map<model::Role, std::vector<double>> sums_;
};

model::Windows make_windows(std::int64_t tokens, std::int64_t window) {
  model::Windows windows;
  std::vector<model::TokenId> ids(static_cast<std::size_t>(window));
  for (std::int64_t first = 0; first < tokens; first += window) {
    for (std::int64_t i = 0; i < window; ++i) {
      ids[static_cast<std::size_t>(i)] = static_cast<model::TokenId>((first + i) * 7919 % kVocab);
    }
    windows.add(ids);
  }
  return windows;
}

/// f32 products with the shapes of the layer, GFLOP/s.
double product_rate(Pool& pool) {
  const auto time = [&](std::int64_t n, std::int64_t k) {
    std::vector<float> a(static_cast<std::size_t>(kBatch * k), 0.5F);
    std::vector<float> b(static_cast<std::size_t>(n * k), 0.25F);
    std::vector<float> c(static_cast<std::size_t>(kBatch * n));
    return seconds(pool, 5, [&] {
      linalg::gemm_f32(linalg::Trans::kNo, linalg::Trans::kYes, 1.0F, {a.data(), kBatch, k},
                       {b.data(), n, k}, 0.0F, {c.data(), kBatch, n}, pool);
    });
  };
  const double total = time(960, kHidden) + time(kHidden, kHidden) + time(2 * kInner, kHidden) +
                       time(kHidden, kInner);
  const double flops =
      2.0 * kBatch * (960.0 * kHidden + kHidden * kHidden + 3.0 * kInner * kHidden);
  std::printf("  products of one layer: %.2f ms per %lld tokens\n", total * 1e3,
              static_cast<long long>(kBatch));
  return flops / total * 1e-9;
}

void stages(const model::Forward& forward, const Synthetic& source, Pool& pool,
            std::int64_t window) {
  const model::LayerWeights weights = model::load_layer(forward.arch(), source, 0, pool);
  model::LayerScratch scratch(forward.arch(), kBatch);
  model::LayerRunner runner(forward.arch(), 0, weights, window, pool);
  const model::Windows windows = make_windows(kBatch, window);
  model::HiddenStates states = forward.embed(windows);
  const MatrixView<float> h = states.view();
  runner.begin(std::vector<std::int64_t>(static_cast<std::size_t>(windows.count()), window),
               scratch);
  const auto show = [](const char* name, double time) {
    std::printf("  %-16s %8.2f ms\n", name, time * 1e3);
  };
  show("attention_input", seconds(pool, 5, [&] { static_cast<void>(runner.attention_input(h)); }));
  show("mix", seconds(pool, 5, [&] { static_cast<void>(runner.mix()); }));
  show("add_mixer", seconds(pool, 1, [&] { runner.add_mixer(h); }));
  show("mlp_input", seconds(pool, 5, [&] { static_cast<void>(runner.mlp_input(h)); }));
  show("activate", seconds(pool, 5, [&] { static_cast<void>(runner.activate()); }));
  show("add_mlp", seconds(pool, 1, [&] { static_cast<void>(runner.add_mlp(h)); }));
}

double run_layers(const model::Forward& forward, const model::Windows& windows,
                  model::LinearObserver* observer) {
  model::HiddenStates states = forward.embed(windows);
  return seconds(forward.pool(), 1, [&] {
    for (std::int64_t layer = 0; layer < forward.arch().layers; ++layer) {
      forward.run_layer(layer, windows, states, observer);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto option = [&](int i, std::int64_t fallback) {
    return argc > i ? std::atoll(argv[i]) : fallback;
  };
  Pool pool(static_cast<int>(option(1, 0)));
  const std::int64_t layers = option(2, 2);
  const std::int64_t tokens = option(3, 8192);
  const std::int64_t window = option(4, 512);
  const Synthetic source(layers);
  const model::Forward forward(source, pool, {kBatch, std::nullopt});
  const model::Windows windows = make_windows(tokens, window);
  const double rate = product_rate(pool);
  std::printf("%d threads, %s: f32 products %.1f GFLOP/s\n", pool.threads(),
              std::string(simd_name(pool.simd())).c_str(), rate);
  stages(forward, source, pool, window);

  const auto count = static_cast<double>(windows.tokens() * layers);
  const double linear = 2.0 * (960.0 * kHidden + kHidden * kHidden + 3.0 * kInner * kHidden);
  const double attention =
      4.0 * static_cast<double>(kHeads * kHeadDim) * static_cast<double>(window + 1) / 2;
  const double gram = 3.0 * kHidden * kHidden + static_cast<double>(kInner * kInner);
  const double plain = run_layers(forward, windows, nullptr);
  std::printf("forward: %.0f token-layers/s, %.1f GFLOP/s, %.2f of the product rate\n",
              count / plain, count * (linear + attention) / plain * 1e-9,
              count * (linear + attention) / plain * 1e-9 / rate);
  GramObserver observer(pool);
  const double watched = run_layers(forward, windows, &observer);
  const double work = count * (linear + attention + gram);
  std::printf("forward + Gram: %.0f token-layers/s, %.1f GFLOP/s, %.2f of the product rate\n",
              count / watched, work / watched * 1e-9, work / watched * 1e-9 / rate);
  const model::ScoredWindows scored{
      make_windows(2048, window),
      std::vector<std::int64_t>(static_cast<std::size_t>(2048 / window), 1)};
  const double scoring =
      seconds(pool, 1, [&] { static_cast<void>(model::perplexity(forward, scored)); });
  std::printf(
      "perplexity of 2048 tokens (embedding and head made up on the fly): %.2f s; peak memory %.0f "
      "MB\n",
      scoring, static_cast<double>(peak_resident_bytes()) * 1e-6);
  return 0;
}
