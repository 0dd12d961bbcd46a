// golden_case.hpp: access to one folder of golden vectors: its case.json and raw files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cortiq/support/bytes.hpp"
#include "data_dirs.hpp"
#include "sha256.hpp"

namespace cortiq::test {

class GoldenCase {
 public:
  explicit GoldenCase(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::ifstream stream(folder_ / "case.json");
    json_ = nlohmann::json::parse(stream);
  }

  [[nodiscard]] std::string name() const { return folder_.filename().string(); }
  [[nodiscard]] const nlohmann::json& json() const { return json_; }
  [[nodiscard]] bool has(const std::string& file) const { return json_["files"].contains(file); }
  [[nodiscard]] const nlohmann::json& info(const std::string& file) const {
    return json_["files"][file];
  }

  [[nodiscard]] std::vector<std::byte> bytes(const std::string& file) const {
    std::ifstream stream(folder_ / file, std::ios::binary);
    const std::vector<char> raw{std::istreambuf_iterator<char>(stream), {}};
    const auto* data = reinterpret_cast<const std::byte*>(raw.data());
    return {data, data + raw.size()};
  }

  template <typename T>
  [[nodiscard]] std::vector<T> values(const std::string& file) const {
    const std::vector<std::byte> raw = bytes(file);
    std::vector<T> result(raw.size() / sizeof(T));
    if (!result.empty()) std::memcpy(result.data(), raw.data(), result.size() * sizeof(T));
    return result;
  }

  /// By the digest in case.json, so that files that are not stored can be checked too.
  [[nodiscard]] bool matches(const std::string& file, std::span<const std::byte> actual) const {
    return sha256_hex(actual) == info(file)["sha256"].get<std::string>();
  }

 private:
  std::filesystem::path folder_;
  nlohmann::json json_;
};

}  // namespace cortiq::test
