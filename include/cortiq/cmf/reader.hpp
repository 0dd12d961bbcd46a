// reader.hpp: memory-mapped CMF file or sharded set, validated at open (cmf.md sections 1, 2, 4, 7, 8.1).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::cmf {

class Reader final : public Source {
 public:
  enum class Hashes { kCheck, kIgnore };
  /// Opens a file; if it is shard 1 of a set, opens all shards. Everything is validated except what no hash is recorded
  /// for and, with kIgnore, hashes (see verify.hpp): those of header and directory here, of a payload or another
  /// section when its accessor is first called, which then throws Error{kInput}.
  /// Throws Error{kIo} if a file cannot be opened, Error{kInput} with file, section or tensor and numbers if it is
  /// damaged, Error{kUnsupported} for versions or features that are not known.
  [[nodiscard]] static std::unique_ptr<Reader> open(const std::filesystem::path& path,
                                                    Hashes hashes = Hashes::kCheck);
  ~Reader() override;

  const std::filesystem::path& path() const override;
  std::vector<std::filesystem::path> files() const override;
  const Header& header() const override;
  const std::vector<TensorInfo>& tensors() const override;
  std::optional<std::size_t> find(std::string_view name) const override;
  Payload payload(std::size_t index) const override;
  void release(std::size_t index) const override;
  ByteSpan vocab() const override;
  ByteSpan masks() const override;
  ByteSpan mask_index() const override;

  /// required_features of shard 1 (cmf.md 1.1).
  [[nodiscard]] std::uint32_t features() const;
  /// Things worth a warning that do not forbid use (overlapping payloads…).
  [[nodiscard]] const std::vector<std::string>& warnings() const;

  struct State;                                   // reader_state.hpp, private to the module
  [[nodiscard]] const State& state() const;

 private:
  Reader();
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::cmf
