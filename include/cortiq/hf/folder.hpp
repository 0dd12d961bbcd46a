// folder.hpp: a Hugging Face folder (config.json, safetensors, tokenizer.json) presented as the CMF
// model that `convert` would write: same header, names, order, dtypes and bytes (cmf.md section 9).
// Nothing is copied up front.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::hf {

struct FolderOptions {
  /// Storage of matrices: kF16 (default), kBf16 or kF32. A value beyond the range of f16 is an
  /// error naming the tensor.
  cmf::DType dtype = cmf::DType::kF16;
  /// NaN and infinities are passed on (callers replace them) instead of being an error.
  bool keep_non_finite = false;
};

/// True if the path is a folder with a config.json.
[[nodiscard]] bool is_model_folder(const std::filesystem::path& path);

class Folder final : public cmf::Source {
 public:
  /// Reads config, index and all safetensors headers; checks every file's size and every span.
  /// Throws Error{kInput} for a missing shard or truncated file, Error{kUnsupported} for an
  /// architecture, rope scaling or dtype that is not handled.
  [[nodiscard]] static std::unique_ptr<Folder> open(const std::filesystem::path& path,
                                                    const FolderOptions& options = {});
  ~Folder() override;

  /// What config.json states twice and differently, and which of it is used.
  [[nodiscard]] const std::vector<std::string>& warnings() const;
  const std::filesystem::path& path() const override;
  std::vector<std::filesystem::path> files() const override;
  const cmf::Header& header() const override;
  const std::vector<cmf::TensorInfo>& tensors() const override;
  std::optional<std::size_t> find(std::string_view name) const override;
  cmf::Payload payload(std::size_t index) const override;
  void release(std::size_t index) const override;
  ByteSpan vocab() const override;
  ByteSpan masks() const override;
  ByteSpan mask_index() const override;

 private:
  struct State;
  Folder();
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::hf
