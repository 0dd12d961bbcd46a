// tiny_model.hpp: a random model in memory, as a source, for tests of the forward pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::model::test {

/// Tensors are f32. Everything is writable before the model is used.
class MemorySource final : public cmf::Source {
 public:
  cmf::Json arch = cmf::Json::object();

  void set(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values);
  void erase(const std::string& name);
  [[nodiscard]] std::vector<float>& values(const std::string& name);
  [[nodiscard]] const std::vector<float>& values(const std::string& name) const;
  /// Call after the last change of arch or tensors.
  void finish();

  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::filesystem::path> files() const override { return {}; }
  const cmf::Header& header() const override { return header_; }
  const std::vector<cmf::TensorInfo>& tensors() const override { return infos_; }
  std::optional<std::size_t> find(std::string_view name) const override;
  cmf::Payload payload(std::size_t index) const override;
  void release(std::size_t) const override {}
  ByteSpan vocab() const override { return {}; }
  ByteSpan masks() const override { return {}; }
  ByteSpan mask_index() const override { return {}; }

 private:
  struct Entry {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  std::filesystem::path path_ = "tiny-model";
  cmf::Header header_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<cmf::TensorInfo> infos_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

struct TinyOptions {
  std::string family = "llama";
  std::int64_t hidden = 40;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 24;
  std::int64_t intermediate = 72;
  std::int64_t vocab = 97;
  bool bias = false;
  bool qk_norm = false;
  bool sandwich = false;
  bool tied = true;
  unsigned seed = 1;
};
/// Not yet finished, so that a test can change arch and tensors.
[[nodiscard]] MemorySource make_tiny(const TinyOptions& options);

struct TinyExperts {
  std::int64_t count = 5;
  std::int64_t top_k = 2;
  std::int64_t width = 24;
  std::int64_t shared_width = 0;  ///< 0 = no shared expert
  bool shared_gate = false;
  bool bias = false;
  unsigned seed = 9;
};
/// Replaces the dense MLP of a layer and writes arch.moe.
void add_experts(MemorySource& source, std::int64_t layer, const TinyExperts& options);

struct TinyDelta {
  std::int64_t key_heads = 2;
  std::int64_t value_heads = 4;
  std::int64_t key_dim = 12;
  std::int64_t value_dim = 20;
  std::int64_t taps = 4;
  unsigned seed = 19;
};
/// Replaces the attention of a layer and writes arch.linear_core and its companions.
void make_linear(MemorySource& source, std::int64_t layer, const TinyDelta& options);

}  // namespace cortiq::model::test
