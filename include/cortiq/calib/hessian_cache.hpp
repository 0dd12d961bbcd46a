// hessian_cache.hpp: the CMFHESS1 file (hessian-cache.md): streaming writer, indexed reader, identity sidecar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/calib/hessian.hpp"

namespace cortiq::calib {

/// Where a cache came from; stored in PATH.json beside it (hessian-cache.md section 6).
struct CacheIdentity {
  std::string model_hash;        ///< of the model whose inputs were recorded
  std::string tokenizer_hash;
  std::vector<SourceReport> sources;
  std::int64_t tokens = 0;       ///< rows summed per non-expert entry
  std::int64_t window = 0;
  bool bos = false;
};
/// Human-readable differences ("window: 512 here, 2048 in the cache"); empty = equal.
[[nodiscard]] std::vector<std::string> identity_differences(const CacheIdentity& wanted, const CacheIdentity& cached);

class HessianCacheWriter {
 public:
  /// Creates a unique temporary beside `path`. Throws Error{kIo}.
  explicit HessianCacheWriter(std::filesystem::path path);
  ~HessianCacheWriter();
  /// Appends one entry. names: all tensors that read this input. Streams the triangle; no copy of H.
  void add(const std::vector<std::string>& names, const Hessian& hessian);
  /// Patches the entry count, syncs, renames; then writes the sidecar.
  void commit(const CacheIdentity& identity);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct CacheEntry {
  std::vector<std::string> names;
  std::int64_t cols = 0;
  std::int64_t count = 0;
  bool has_triangle = false;
  std::uint64_t payload_offset = 0;
};

class HessianCache {
 public:
  /// Indexes and validates the structure (hessian-cache.md section 5). Throws Error{kInput} with path, entry and numbers.
  [[nodiscard]] static HessianCache open(const std::filesystem::path& path);
  ~HessianCache();
  HessianCache(HessianCache&&) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] const std::vector<CacheEntry>& entries() const;
  /// Entry that serves this tensor: name present, count > 0, cols equal, triangle present.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view tensor, std::int64_t cols) const;
  /// Reads an entry with a triangle. NaN or Inf: Error{kNumeric} naming the tensor.
  [[nodiscard]] std::unique_ptr<Hessian> read(std::size_t entry) const;
  /// From the sidecar; nullopt if there is none.
  [[nodiscard]] std::optional<CacheIdentity> identity() const;
  /// sha256 of the cache file, hex.
  [[nodiscard]] std::string sha256() const;

 private:
  struct State;
  explicit HessianCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::calib
