// writer.hpp: streams a CMF file: sizes are planned first, payloads arrive in any order, the name appears at the end.
// Layout: envelope, header, directory, zero fill, data (4096-aligned), masks, vocab, index (cmf.md sections 1, 2.1, 8).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::cmf {

/// A tensor whose payload size is known before its bytes are.
struct PlannedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t nbytes = 0;
};

struct WriterSections {
  ByteSpan masks;
  ByteSpan vocab;
  ByteSpan mask_index;
};

class Writer {
 public:
  /// Creates OUT.partial, checks free space for the whole file and reserves it. `header` sizes the gap in front of the
  /// data; the header given to finish() may be up to `header_slack_bytes` longer (a longer one goes behind the data).
  /// The spans in `sections` must stay valid until finish(). Throws Error{kIo} or Error{kRefused} (not enough space).
  Writer(std::filesystem::path path, const Header& header, std::vector<PlannedTensor> tensors,
         const WriterSections& sections, std::uint64_t header_slack_bytes = 65536);
  /// Continues the OUT.partial of an interrupted writer that was made with the same arguments; it must exist. No tensor
  /// counts as written before adopt_tensor(); all bytes but the payloads are made anew.
  [[nodiscard]] static std::unique_ptr<Writer> reopen(std::filesystem::path path, const Header& header,
                                                      std::vector<PlannedTensor> tensors, const WriterSections& sections);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Error{kRefused} if OUT.partial is there and no Writer left it: the constructor will not empty it.
  static void check_partial(const std::filesystem::path& path);
  /// Size of the finished file (with the header of the constructor).
  [[nodiscard]] std::uint64_t planned_bytes() const noexcept;
  [[nodiscard]] const std::vector<PlannedTensor>& tensors() const noexcept;
  /// Writes payload `index` (size must equal the plan) and computes its hash. Thread safe.
  void write_tensor(std::size_t index, ByteSpan payload);
  [[nodiscard]] bool is_written(std::size_t index) const;
  /// Checksum of a payload that was written.
  [[nodiscard]] std::uint64_t payload_hash(std::size_t index) const;
  /// Whether payload `index` in the unfinished file has this checksum. Thread safe.
  [[nodiscard]] bool holds_tensor(std::size_t index, std::uint64_t hash) const;
  /// Takes over a payload of an interrupted run that holds_tensor().
  void adopt_tensor(std::size_t index, std::uint64_t hash);
  /// What was written so far reaches the disk.
  void sync();
  /// Payload `index` as it lies in the unfinished file; it must have been written.
  [[nodiscard]] std::vector<std::byte> read_back(std::size_t index) const;
  /// Leaves OUT.partial in place when the Writer is destroyed without finish().
  void keep_partial() noexcept;
  /// Recomputes section_hashes and required_features from `header`, drops `segments` and `shard`, writes header and
  /// directory, syncs, renames. Every planned tensor must have been written. Returns the size of the file.
  std::uint64_t finish(Header header);

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Layout arithmetic without writing, for plans: size of the file with these tensors.
[[nodiscard]] std::uint64_t plan_file_bytes(const Header& header, const std::vector<PlannedTensor>& tensors,
                                            const WriterSections& sections);

}  // namespace cortiq::cmf
