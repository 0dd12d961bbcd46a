// raw_file.hpp: builds CMF files byte by byte from cmf.md, without the code under test, so that
// every field can be set to a wrong value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::cmf::test {

using Json = nlohmann::ordered_json;

/// cmf.md section 3, as written there.
inline std::uint64_t naive_hash64(std::string_view bytes) {
  const auto fmix = [](std::uint64_t x) {
    x ^= x >> 33;
    x *= 0xFF51AFD7ED558CCDULL;
    x ^= x >> 33;
    x *= 0xC4CEB9FE1A85EC53ULL;
    x ^= x >> 33;
    return x;
  };
  std::uint64_t acc = 0;
  for (std::size_t at = 0, i = 0; at < bytes.size(); at += 8, ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    acc ^= fmix(word) ^ (i * 0x9E3779B97F4A7C15ULL);
  }
  return fmix(acc ^ bytes.size());
}

template <typename T>
void put(std::string& target, std::size_t offset, T value) {
  if (target.size() < offset + sizeof(T)) target.resize(offset + sizeof(T), '\0');
  std::memcpy(target.data() + offset, &value, sizeof(T));
}

template <typename T>
std::string le(T value) {
  std::string bytes;
  put(bytes, 0, value);
  return bytes;
}

inline Json minimal_header(int layers = 2) {
  Json header =
      Json::parse(R"({"format":"cmf","version":2,"arch":{"arch_name":"llama","hidden_size":32,
    "intermediate_size":64,"num_layers":0,"num_attention_heads":2,"num_kv_heads":1,"head_dim":16,"vocab_size":100,
    "layer_types":[],"rms_norm_eps":1e-06,"max_position_embeddings":64},"quant_type":"F16"})");
  header["arch"]["num_layers"] = layers;
  for (int i = 0; i < layers; ++i) header["arch"]["layer_types"].push_back("FullAttention");
  return header;
}

struct RawTensor {
  std::string name;
  std::uint8_t dtype = 1;
  std::vector<std::uint32_t> shape;
  std::string payload;
  std::uint64_t offset = UINT64_MAX;  ///< relative to the data; UINT64_MAX = placed by the builder
};

struct RawFile {
  Json header = minimal_header();
  std::vector<RawTensor> tensors;
  std::string masks;
  std::string vocab;
  std::string index;
  std::uint32_t features = 1;
  // Filled by build().
  std::size_t directory_offset = 0;
  std::size_t data_offset = 0;

  [[nodiscard]] std::size_t record_offset(std::size_t tensor) const {
    return directory_offset + 16 + 56 * tensor;
  }

  std::string build() {
    const std::string text = header.dump();
    std::string directory;
    std::string pool;
    std::string data;
    put<std::uint64_t>(directory, 0, tensors.size());
    put<std::uint64_t>(directory, 8, 16 + 56 * tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      add_record(tensors[i], 16 + 56 * i, directory, pool, data);
    directory += pool;

    std::string file(128, '\0');
    directory_offset = 128 + text.size();
    file += text + directory;
    data_offset = (file.size() + 4095) / 4096 * 4096;
    file.resize(data_offset, '\0');
    file += data;
    std::memcpy(file.data(), "CMF\x01", 4);
    put<std::uint32_t>(file, 4, 2);
    put<std::uint32_t>(file, 0x0C, features);
    put_range(file, 0x10, 128, text.size());
    put_range(file, 0x20, directory_offset, directory.size());
    put_range(file, 0x30, data_offset, data.size());
    add_section(file, 0x40, masks);
    add_section(file, 0x50, vocab);
    add_section(file, 0x60, index);
    put<std::uint64_t>(file, 0x70, naive_hash64(text));
    put<std::uint64_t>(file, 0x78, naive_hash64(directory));
    return file;
  }

  static void put_range(std::string& file, std::size_t at, std::uint64_t offset,
                        std::uint64_t length) {
    put(file, at, offset);
    put(file, at + 8, length);
  }

 private:
  static void add_section(std::string& file, std::size_t at, const std::string& bytes) {
    if (bytes.empty()) return;
    put_range(file, at, file.size(), bytes.size());
    file += bytes;
  }

  static void add_record(const RawTensor& tensor, std::size_t at, std::string& directory,
                         std::string& pool, std::string& data) {
    const std::uint64_t alignment = tensor.payload.size() >= 16384 ? 4096 : 64;
    std::uint64_t offset = (data.size() + alignment - 1) / alignment * alignment;
    if (tensor.offset != UINT64_MAX) offset = tensor.offset;
    if (data.size() < offset + tensor.payload.size())
      data.resize(offset + tensor.payload.size(), '\0');
    data.replace(offset, tensor.payload.size(), tensor.payload);
    put(directory, at, static_cast<std::uint32_t>(pool.size()));
    put(directory, at + 4, static_cast<std::uint16_t>(tensor.name.size()));
    put(directory, at + 6, tensor.dtype);
    put(directory, at + 7, static_cast<std::uint8_t>(tensor.shape.size()));
    for (std::size_t d = 0; d < 6; ++d) {
      put(directory, at + 8 + 4 * d, d < tensor.shape.size() ? tensor.shape[d] : 0U);
    }
    put(directory, at + 32, offset);
    put<std::uint64_t>(directory, at + 40, tensor.payload.size());
    put(directory, at + 48, naive_hash64(tensor.payload));
    pool += tensor.name;
  }
};

/// Deterministic bytes without structure.
inline std::string noise(std::size_t size, std::uint32_t seed) {
  std::string bytes(size, '\0');
  for (char& c : bytes) {
    seed = seed * 1664525U + 1013904223U;
    c = static_cast<char>(seed >> 24);
  }
  return bytes;
}

/// Two f16 tensors and a q4_block one, vocab and no masks.
inline RawFile small_file() {
  RawFile file;
  file.tensors.push_back({"model.norm.weight", 1, {32}, noise(64, 1)});
  file.tensors.push_back({"model.layers.0.mlp.up_proj.weight", 1, {3, 5}, noise(30, 2)});
  file.tensors.push_back({"lm_head.weight", 4, {4, 32}, noise(72, 3)});
  file.vocab = "{\"model\":{}}";
  file.header["section_hashes"] = Json::object();
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx",
                static_cast<unsigned long long>(naive_hash64(file.vocab)));
  file.header["section_hashes"]["vocab"] = hex;
  return file;
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace cortiq::cmf::test
