// fake_source.hpp: a model in memory, for tests of what works on any cmf::Source.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::test {

class FakeSource final : public cmf::Source {
 public:
  explicit FakeSource(cmf::Json arch = cmf::Json::object())
      : header_(cmf::Json{{"arch", std::move(arch)}}) {}

  /// A tensor whose payload is `fill` repeated (2 bytes a weight for the half types, else 4).
  FakeSource& add(const std::string& name, std::vector<std::int64_t> shape,
                  cmf::DType dtype = cmf::DType::kF32, float fill = 0.5F) {
    cmf::TensorInfo info;
    info.name = name;
    info.dtype = dtype;
    info.shape = std::move(shape);
    const auto count = static_cast<std::size_t>(info.elements());
    std::vector<std::byte> bytes(count * (dtype == cmf::DType::kF32 ? 4 : 2));
    if (dtype == cmf::DType::kF32) {
      for (std::size_t i = 0; i < count; ++i) store_le(bytes.data() + 4 * i, fill);
    }
    info.nbytes = bytes.size();
    infos_.push_back(std::move(info));
    payloads_.push_back(std::move(bytes));
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const override { return path_; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {}; }
  [[nodiscard]] const cmf::Header& header() const override { return header_; }
  [[nodiscard]] const std::vector<cmf::TensorInfo>& tensors() const override { return infos_; }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const override {
    for (std::size_t i = 0; i < infos_.size(); ++i) {
      if (infos_[i].name == name) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] cmf::Payload payload(std::size_t index) const override {
    return cmf::Payload(ByteSpan(payloads_[index]));
  }
  void release(std::size_t) const override {}
  [[nodiscard]] ByteSpan vocab() const override { return {}; }
  [[nodiscard]] ByteSpan masks() const override { return {}; }
  [[nodiscard]] ByteSpan mask_index() const override { return {}; }

 private:
  std::filesystem::path path_ = "fake-model";
  cmf::Header header_;
  std::vector<cmf::TensorInfo> infos_;
  std::vector<std::vector<std::byte>> payloads_;
};

}  // namespace cortiq::test
