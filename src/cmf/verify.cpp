#include "cortiq/cmf/verify.hpp"

#include <algorithm>

#include "cortiq/cmf/features.hpp"
#include "cortiq/cmf/hash64.hpp"
#include "hash64_blocks.hpp"
#include "reader_state.hpp"
#include "verify_layout.hpp"

namespace cortiq::cmf {
namespace {

/// Unit of parallel work; a multiple of 8.
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;

struct Block {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;  ///< in the payload
};

std::vector<Block> cut_blocks(const std::vector<TensorInfo>& tensors) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::uint64_t at = 0; at < tensors[i].nbytes; at += kBlockBytes) blocks.push_back({i, at});
  }
  return blocks;
}

/// Payload hashes of all tensors. XOR of the blocks' values: their order does not matter.
std::vector<std::uint64_t> hash_tensors(const Reader::State& state, Pool& pool) {
  const std::vector<Block> blocks = cut_blocks(state.tensors);
  std::vector<std::uint64_t> partial(blocks.size());
  pool.for_each(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t b) {
    const Block& block = blocks[static_cast<std::size_t>(b)];
    const ByteSpan payload = state.payload(block.tensor);
    const std::uint64_t length =
        std::min<std::uint64_t>(kBlockBytes, payload.size() - block.offset);
    const ByteSpan part =
        payload.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(length));
    partial[static_cast<std::size_t>(b)] = hash64_partial(part, block.offset / 8);
    state.shards[state.locations[block.tensor].shard].file.release(part);
  });
  std::vector<std::uint64_t> hashes(state.tensors.size(), 0);
  for (std::size_t b = 0; b < blocks.size(); ++b) hashes[blocks[b].tensor] ^= partial[b];
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = hash64_finish(hashes[i], state.tensors[i].nbytes);
  }
  return hashes;
}

std::string mismatch_text(std::string_view where, std::string_view what, std::uint64_t stored,
                          std::uint64_t computed) {
  return fmt::format(
      "{}: {}: hash mismatch (stored {:016x}, computed {:016x}); the file is damaged", where, what,
      stored, computed);
}

void check_section_hash(const Shard& shard, const char* key, const Range& range,
                        VerifyReport* report) {
  const Json& header = shard.header.json();
  const auto hashes = header.find("section_hashes");
  if (hashes == header.end() || !hashes->is_object()) return;
  const auto found = hashes->find(key);
  if (found == hashes->end() || !found->is_string()) return;
  const std::string where = shard.file.path().string();
  if (range.length == 0) {
    report->warnings.push_back(fmt::format(
        "{}: header: section_hashes names {}, which the file does not have", where, key));
    return;
  }
  const std::string computed = fmt::format("{:016x}", hash64(shard.section(range)));
  const std::string& stored = found->get_ref<const std::string&>();
  if (stored != computed) {
    report->problems.push_back(
        fmt::format("{}: {} section: hash mismatch (stored {}, computed {}); the file is damaged",
                    where, key, stored, computed));
  }
}

void verify_sections(const Shard& shard, VerifyReport* report) {
  const Envelope& e = shard.envelope;
  const std::string where = shard.file.path().string();
  const std::uint64_t header = hash64(shard.section(e.header));
  if (e.header_hash != 0 && e.header_hash != header) {
    report->problems.push_back(mismatch_text(where, "header", e.header_hash, header));
  }
  const std::uint64_t directory = hash64(shard.section(e.directory));
  if (e.directory_hash != 0 && e.directory_hash != directory) {
    report->problems.push_back(mismatch_text(where, "directory", e.directory_hash, directory));
  }
  check_section_hash(shard, "masks", e.masks, report);
  check_section_hash(shard, "vocab", e.vocab, report);
  check_section_hash(shard, "index", e.index, report);
  for (const Range& range : {e.header, e.directory, e.masks, e.vocab, e.index})
    report->bytes += range.length;
}

/// Bits that opening does not compare with the content, because other programs get them wrong
/// without harm.
void check_features(const Reader::State& state, std::size_t s, VerifyReport* report) {
  const Shard& shard = state.shards[s];
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (state.locations[i].shard == s) dtypes.push_back(state.tensors[i].dtype);
  }
  const std::uint32_t derived =
      derive_features(shard.header, dtypes, shard.envelope.masks.length > 0);
  const std::uint32_t stored = shard.envelope.required_features;
  if (derived == stored) return;
  report->warnings.push_back(fmt::format(
      "{}: envelope: required_features is {:#x}, the content says {:#x} (differing: {})",
      shard.file.path().string(), stored, derived, feature_names(stored ^ derived)));
}

std::vector<Range> payloads_of(const Reader::State& state, std::size_t s) {
  std::vector<Range> payloads;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const Location& at = state.locations[i];
    if (at.shard == s) payloads.push_back({at.offset, state.tensors[i].nbytes});
  }
  return payloads;
}

}  // namespace

VerifyReport verify(const Reader& reader, Pool& pool) {
  const Reader::State& state = reader.state();
  VerifyReport report;
  report.warnings = reader.warnings();
  report.tensors = static_cast<std::int64_t>(state.tensors.size());
  for (std::size_t s = 0; s < state.shards.size(); ++s) {
    verify_sections(state.shards[s], &report);
    check_features(state, s, &report);
    verify_layout(state.shards[s], payloads_of(state, s), &report);
  }
  const std::vector<std::uint64_t> hashes = hash_tensors(state, pool);
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const TensorInfo& tensor = state.tensors[i];
    report.bytes += tensor.nbytes;
    if (!tensor.hash || *tensor.hash == hashes[i]) continue;
    report.problems.push_back(
        mismatch_text(state.shards[state.locations[i].shard].file.path().string(),
                      "tensor " + tensor.name, *tensor.hash, hashes[i]));
  }
  return report;
}

}  // namespace cortiq::cmf
