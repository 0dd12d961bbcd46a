#include "cortiq/cmf/reader.hpp"

#include "cortiq/cmf/hash64.hpp"

#include <algorithm>

#include "reader_state.hpp"
#include "section_hashes.hpp"

namespace cortiq::cmf {
namespace {

/// Moves the entries of every shard into one list, in shard order, and finds duplicate names.
void merge_directories(Reader::State& state) {
  std::size_t total = 0;
  for (const Shard& shard : state.shards) total += shard.entries.size();
  state.tensors.reserve(total);  // by_name holds views of the names: no reallocation after this
  state.locations.reserve(total);
  state.by_name.reserve(total);
  for (std::size_t s = 0; s < state.shards.size(); ++s) {
    Shard& shard = state.shards[s];
    for (DirectoryEntry& entry : shard.entries) {
      state.locations.push_back({s, shard.envelope.data.offset + entry.offset});
      state.tensors.push_back(std::move(entry.info));
      const auto [found, added] =
          state.by_name.emplace(state.tensors.back().name, state.tensors.size() - 1);
      if (added) continue;
      const Shard& other = state.shards[state.locations[found->second].shard];
      fail(ErrorKind::kInput, "{}: tensor {}: appears twice{}; the file is damaged",
           shard.file.path().string(), state.tensors.back().name,
           &other == &shard ? "" : fmt::format(", first in {}", other.file.path().string()));
    }
    shard.entries.clear();
    shard.entries.shrink_to_fit();
    state.warnings.insert(state.warnings.end(), shard.warnings.begin(), shard.warnings.end());
  }
}

}  // namespace

Reader::Reader() : state_(std::make_unique<State>()) {}
Reader::~Reader() = default;

std::unique_ptr<Reader> Reader::open(const std::filesystem::path& path, Hashes hashes) {
  std::unique_ptr<Reader> reader(new Reader);  // the constructor is private
  State& state = *reader->state_;
  state.path = path;
  state.shards = open_siblings(open_shard(path));
  merge_directories(state);
  state.intact = std::make_unique<std::atomic<bool>[]>(state.tensors.size());
  for (std::size_t i = 0; i < state.tensors.size(); ++i) state.intact[i] = hashes == Hashes::kIgnore;
  if (hashes == Hashes::kIgnore) return reader;
  for (const Shard& shard : state.shards) {
    check_hash(shard, SectionName::kHeader);
    check_hash(shard, SectionName::kDirectory);
  }
  state.checks_sections = true;
  return reader;
}

const std::filesystem::path& Reader::path() const { return state_->path; }

std::vector<std::filesystem::path> Reader::files() const {
  std::vector<std::filesystem::path> paths;
  for (const Shard& shard : state_->shards) paths.push_back(shard.file.path());
  return paths;
}

const Header& Reader::header() const { return state_->shards.front().header; }
const std::vector<TensorInfo>& Reader::tensors() const { return state_->tensors; }

std::optional<std::size_t> Reader::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end()) return std::nullopt;
  return found->second;
}

Payload Reader::payload(std::size_t index) const {
  CORTIQ_ASSERT(index < state_->tensors.size());
  state_->check_payload(index);
  return Payload(state_->payload(index));
}

void Reader::State::check_payload(std::size_t index) const {
  const TensorInfo& info = tensors[index];
  if (!info.hash || intact[index].load(std::memory_order_acquire)) return;
  const std::uint64_t computed = hash64(payload(index));
  if (computed != *info.hash) {
    fail(ErrorKind::kInput, "{}; {}",
         payload_mismatch_text(shards[locations[index].shard], info, computed), kDamageRemedy);
  }
  intact[index].store(true, std::memory_order_release);
}

void Reader::release(std::size_t index) const {
  CORTIQ_ASSERT(index < state_->tensors.size());
  state_->shards[state_->locations[index].shard].file.release(state_->payload(index));
}

ByteSpan Reader::State::section(SectionName name) const {
  const Shard& first = shards.front();
  if (checks_sections) {
    // Once each: a vocabulary has megabytes and is asked for often.
    std::call_once(section_checked[static_cast<std::size_t>(name)],
                   [&] { check_hash(first, name); });
  }
  return first.section(range_of(first.envelope, name));
}

ByteSpan Reader::vocab() const { return state_->section(SectionName::kVocab); }
ByteSpan Reader::masks() const { return state_->section(SectionName::kMasks); }
ByteSpan Reader::mask_index() const { return state_->section(SectionName::kIndex); }

std::uint32_t Reader::features() const { return state_->shards.front().envelope.required_features; }
const std::vector<std::string>& Reader::warnings() const { return state_->warnings; }
const Reader::State& Reader::state() const { return *state_; }

}  // namespace cortiq::cmf
