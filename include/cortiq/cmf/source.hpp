// source.hpp: what a model looks like to everything above the container: a header, named tensors, a vocabulary.
// Implemented by cmf::Reader (CMF file or shards) and hf::Folder (Hugging Face folder).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/cmf/dtype.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/support/bytes.hpp"

namespace cortiq::cmf {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;         ///< matrices are [out, in]
  std::uint64_t nbytes = 0;                ///< payload size
  std::optional<std::uint64_t> hash;       ///< hash64 of the payload as stored in the directory
  [[nodiscard]] std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    return n;
  }
};

/// Bytes of one tensor: a view into a mapped file, or bytes made on demand and owned here.
class Payload {
 public:
  explicit Payload(ByteSpan mapped) : bytes_(mapped) {}
  explicit Payload(std::vector<std::byte> owned)
      : owned_(std::make_shared<const std::vector<std::byte>>(std::move(owned))), bytes_(*owned_) {}
  [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<const std::vector<std::byte>> owned_;
  ByteSpan bytes_;
};

class Source {
 public:
  virtual ~Source() = default;
  /// The path as the user gave it; used in messages.
  [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
  /// Every file that belongs to the source (shards, config…), for identity checks against an output path.
  [[nodiscard]] virtual std::vector<std::filesystem::path> files() const = 0;
  [[nodiscard]] virtual const Header& header() const = 0;
  /// In directory order.
  [[nodiscard]] virtual const std::vector<TensorInfo>& tensors() const = 0;
  [[nodiscard]] virtual std::optional<std::size_t> find(std::string_view name) const = 0;
  /// Thread safe. The view stays valid as long as the source (mapped) or the Payload (owned) lives.
  [[nodiscard]] virtual Payload payload(std::size_t index) const = 0;
  /// The pages of this tensor will not be needed soon.
  virtual void release(std::size_t index) const = 0;
  /// Bytes of tokenizer.json; empty if there is none.
  [[nodiscard]] virtual ByteSpan vocab() const = 0;
  /// Raw sections that a rewrite copies; empty if absent.
  [[nodiscard]] virtual ByteSpan masks() const = 0;
  [[nodiscard]] virtual ByteSpan mask_index() const = 0;
};

}  // namespace cortiq::cmf
