// hessian_cache.hpp: the CMFHESS1 file (hessian-cache.md): streaming writer, indexed reader,
// identity sidecar. Integers and floats little-endian, unaligned. The reader checks every size
// against the file before it allocates; reads are positioned, so several threads may read entries
// at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/calib/condition.hpp"
#include "cortiq/calib/corpus.hpp"
#include "cortiq/calib/hessian.hpp"

namespace cortiq::calib {

/// Some layers of a model: a chunk of a cache. No numbers: all of them.
struct LayerList {
  std::vector<std::int64_t> numbers;  ///< ascending from 0
  std::int64_t count = 0;             ///< of the model
  [[nodiscard]] bool whole() const { return numbers.empty(); }
};

/// Where a cache came from; stored in PATH.json beside it (hessian-cache.md section 6).
struct CacheIdentity {
  std::string model_hash;  ///< of the model whose inputs were recorded
  std::string tokenizer_hash;
  std::vector<SourceReport> sources;
  std::int64_t tokens = 0;  ///< rows summed per non-expert entry
  std::int64_t window = 0;
  bool bos = false;
  /// A run that was split (part.hpp): which of its parts are in the sums, ascending from 1, and of
  /// how many; none of one: all of it. `sources` are those of the whole run, `tokens` of these parts.
  std::vector<std::int64_t> parts;
  std::int64_t part_count = 1;
  LayerList layers;  ///< that the file holds
};
/// Human-readable differences ("window: 512 here, 2048 in the cache"); empty = equal. Sources are
/// compared by sha256 and used tokens: the name of a file does not matter, nor which layers it holds.
[[nodiscard]] std::vector<std::string> identity_differences(const CacheIdentity& wanted,
                                                            const CacheIdentity& cached);

/// PATH.json.
[[nodiscard]] std::filesystem::path sidecar_path(const std::filesystem::path& cache);
/// Before a cache is written: Error{kRefused} if PATH.json exists and is no identity file of a
/// Hessian cache (by its magic), for it would be replaced; as check_replaceable() too.
void check_sidecar(const std::filesystem::path& cache);

/// Exact size of a cache file with one entry (with triangle) per group, for a check of the free
/// space.
[[nodiscard]] std::uint64_t cache_bytes(const std::vector<model::InputGroup>& groups);

/// The first entries of a cache that is being written, on disk.
struct CachePrefix {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::string sha256;  ///< of these bytes
};

class HessianCacheWriter {
 public:
  /// Writes PATH.partial (one writer at a time), which keep_partial() leaves in place for another
  /// run. With `kept` and a PATH.partial that begins with just these bytes, what follows them is
  /// overwritten; else the file starts empty. Throws Error{kIo}, and as check_place().
  [[nodiscard]] static HessianCacheWriter resumable(std::filesystem::path path,
                                                    std::uint64_t entries,
                                                    const std::optional<CachePrefix>& kept);
  /// Error{kRefused} if PATH.partial is there and is no unfinished cache.
  static void check_place(const std::filesystem::path& path);
  /// Creates a unique temporary beside `path`. Throws Error{kIo}.
  /// @param entries  how many will be added, if known: then the file's sha256 is computed while
  /// writing and not from a
  ///                 second pass over the file
  explicit HessianCacheWriter(std::filesystem::path path,
                              std::optional<std::uint64_t> entries = std::nullopt);
  ~HessianCacheWriter();
  HessianCacheWriter(HessianCacheWriter&&) noexcept;
  /// Entries so far, those that were taken over included.
  [[nodiscard]] std::uint64_t entries() const;
  /// Brings what was added to disk.
  CachePrefix sync();
  void keep_partial();
  /// Reserves disk space for `bytes` (cache_bytes), so that a full disk shows now. Throws
  /// Error{kIo}.
  void reserve(std::uint64_t bytes);
  /// Appends one entry. names: all tensors that read this input. Streams the triangle; no copy of
  /// H. A name that is empty, longer than 4096 bytes, no UTF-8 or already in the file:
  /// Error{kInput}.
  void add(const std::vector<std::string>& names, const Hessian& hessian);
  /// Patches the entry count, syncs, renames; then writes the sidecar. A stale sidecar is removed
  /// before the rename, so that a crash in between leaves a cache without identity and never one
  /// with a wrong identity.
  void commit(const CacheIdentity& identity);
  /// The same without a sidecar.
  void commit_without_identity();

 private:
  struct State;
  explicit HessianCacheWriter(std::unique_ptr<State> state);
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
  /// Indexes and validates the structure (hessian-cache.md section 5). Throws Error{kInput} with
  /// path, entry and numbers.
  [[nodiscard]] static HessianCache open(const std::filesystem::path& path);
  ~HessianCache();
  HessianCache(HessianCache&&) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] const std::vector<CacheEntry>& entries() const;
  /// Entry that serves this tensor: name present, count > 0, cols equal, triangle present.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view tensor, std::int64_t cols) const;
  /// Inputs that every token passes have one count of rows in a run: warnings that name those with
  /// another one. (Experts get what is routed to them.)
  [[nodiscard]] std::vector<std::string> count_warnings() const;
  /// Reads an entry with a triangle. NaN or Inf: Error{kNumeric}; values far from any sum of squares
  /// (|H_ij| more than twice its bound): Error{kInput}. Both name the tensor.
  /// @param warnings  if given, receives what is odd but usable: negative diagonal, |H_ij| above
  /// its bound, sums of squares
  ///                  that are not the diagonal, fewer rows than channels. Each names the tensor.
  [[nodiscard]] std::unique_ptr<Hessian> read(std::size_t entry,
                                              std::vector<std::string>* warnings = nullptr) const;
  /// Adds an entry with a triangle to `sum` (of the same width) row by row: H, count and sums of
  /// squares. Errors as read().
  void add_to(std::size_t entry, Hessian& sum) const;
  /// Sums of squares of an entry; the payload of one without a triangle. NaN or Inf:
  /// Error{kNumeric}.
  [[nodiscard]] std::vector<double> read_sum_squares(std::size_t entry) const;
  /// Diagonal of the triangle (the sums of squares where there is none), without reading the rest.
  [[nodiscard]] std::vector<double> read_diagonal(std::size_t entry) const;
  /// From the sidecar; nullopt if there is none. A sidecar of another file (bytes or entries
  /// differ) or a damaged one: Error{kInput}.
  [[nodiscard]] std::optional<CacheIdentity> identity() const;
  /// sha256 of the cache file, hex. Reads the whole file. Error{kInput} if the sidecar says that
  /// another was written.
  [[nodiscard]] std::string sha256() const;

 private:
  struct State;
  explicit HessianCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What `hessians inspect` shows of an entry.
struct CacheEntryStats {
  std::vector<std::string> names;
  std::int64_t cols = 0;
  std::int64_t count = 0;
  bool has_triangle = false;
  HessianHealth health;
  ChannelLists channels;
  std::vector<std::string> warnings;   ///< of a full read only
  std::optional<Condition> condition;  ///< the same, and where a channel is live
};
enum class InspectDepth {
  kDiagonal,  ///< reads diagonals only
  kFull,      ///< reads and checks the whole triangle, estimates its condition
};
/// NaN or Inf in what is read: Error{kNumeric} naming the tensor.
[[nodiscard]] CacheEntryStats inspect_entry(const HessianCache& cache, std::size_t entry,
                                            InspectDepth depth, Pool& pool);

}  // namespace cortiq::calib
