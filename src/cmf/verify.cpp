#include "cortiq/cmf/verify.hpp"

#include <algorithm>

#include "cortiq/cmf/features.hpp"
#include "cortiq/cmf/hash64.hpp"
#include "hash64_blocks.hpp"
#include "reader_state.hpp"
#include "section_hashes.hpp"
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

void verify_sections(const Shard& shard, VerifyReport* report) {
  const Envelope& e = shard.envelope;
  for (const auto& [key, range] :
       {std::pair{"masks", e.masks}, std::pair{"vocab", e.vocab}, std::pair{"index", e.index}}) {
    if (range.length > 0 || !hash_in_header(shard, key)) continue;
    report->warnings.push_back(
        fmt::format("{}: header: section_hashes names {}, which the file does not have",
                    shard.file.path().string(), key));
  }
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
  report.problems = section_problems(reader);
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
        payload_mismatch_text(state.shards[state.locations[i].shard], tensor, hashes[i]));
  }
  return report;
}

}  // namespace cortiq::cmf
