// tiny_folder.hpp: hand-made Hugging Face folders for the tests of this module.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cortiq::hf::test {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

inline void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// u64 length, header text, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

/// Collects tensors and writes them as one file.
class Weights {
 public:
  Weights& add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
               const std::string& bytes) {
    header_[name] = Json{{"dtype", dtype},
                         {"shape", shape},
                         {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
    return *this;
  }
  /// f32 tensor with values seed, seed+1, seed+2…
  Weights& ramp(const std::string& name, std::vector<std::int64_t> shape, float seed = 0) {
    std::int64_t count = 1;
    for (const std::int64_t dim : shape) count *= dim;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(seed + static_cast<float>(i));
    return add(name, "F32", std::move(shape), raw(values));
  }
  [[nodiscard]] std::string bytes() const { return safetensors_bytes(header_.dump(), data_); }
  [[nodiscard]] const Json& header() const { return header_; }

 private:
  Json header_ = Json::object();
  std::string data_;
};

/// Two heads of 4 channels, one layer, eight tokens.
inline Json tiny_config() {
  return Json{{"model_type", "llama"},
              {"hidden_size", 8},
              {"intermediate_size", 12},
              {"num_hidden_layers", 1},
              {"num_attention_heads", 2},
              {"num_key_value_heads", 1},
              {"vocab_size", 8},
              {"rms_norm_eps", 1e-5},
              {"max_position_embeddings", 64},
              {"tie_word_embeddings", true},
              {"bos_token_id", 1},
              {"eos_token_id", 2}};
}

inline Weights tiny_weights() {
  Weights weights;
  weights.ramp("model.embed_tokens.weight", {8, 8})
      .ramp("model.layers.0.input_layernorm.weight", {8}, 1)
      .ramp("model.layers.0.self_attn.q_proj.weight", {8, 8}, 2)
      .ramp("model.norm.weight", {8}, 3);
  return weights;
}

inline void write_folder(const fs::path& folder, const Json& config, const Weights& weights) {
  fs::create_directories(folder);
  write_file(folder / "config.json", config.dump());
  write_file(folder / "model.safetensors", weights.bytes());
}

}  // namespace cortiq::hf::test
