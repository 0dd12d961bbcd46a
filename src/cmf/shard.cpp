// One file of a set, and finding its siblings (cmf.md sections 7 and 8.1).
#include <array>

#include "cortiq/cmf/features.hpp"
#include "masks.hpp"
#include "reader_state.hpp"

namespace cortiq::cmf {
namespace {

namespace fs = std::filesystem;

struct ShardNumber {
  std::uint64_t number = 0;
  std::uint64_t count = 0;
};

std::optional<ShardNumber> shard_number(const Header& header) {
  const auto found = header.json().find("shard");
  if (found == header.json().end() || found->is_null()) return std::nullopt;
  return ShardNumber{found->at("no").get<std::uint64_t>(), found->at("count").get<std::uint64_t>()};
}

void check_feature_bits(const Shard& shard, std::string_view where) {
  std::vector<DType> dtypes;
  for (const DirectoryEntry& entry : shard.entries) dtypes.push_back(entry.info.dtype);
  const std::uint32_t derived =
      derive_features(shard.header, dtypes, shard.envelope.masks.length > 0);
  const std::uint32_t stored = shard.envelope.required_features;
  if (const std::uint32_t wrong = (derived ^ stored) & kCrossCheckedFeatures; wrong != 0) {
    fail(ErrorKind::kInput,
         "{}: envelope: required_features and the header disagree about {} (stored {}, header says "
         "{}); the file is "
         "damaged",
         where, feature_names(wrong), feature_names(stored & wrong),
         feature_names(derived & wrong));
  }
}

std::string sibling_name(const std::string& stem, std::uint64_t number, std::uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.cmf", stem, number, count);
}

/// The part of the file name of shard 1 before its number.
std::string stem_of(const Shard& first, const ShardNumber& shard) {
  const std::string name = first.file.path().filename().string();
  const std::string ending = sibling_name("", 1, shard.count);
  if (name.size() <= ending.size() || name.substr(name.size() - ending.size()) != ending) {
    fail(ErrorKind::kInput,
         "{}: header: says shard 1 of {}, so the file name must end in {}; rename it, and keep all "
         "shards in one folder",
         first.file.path().string(), shard.count, ending);
  }
  return name.substr(0, name.size() - ending.size());
}

/// Shape of the model: shards of one model agree in it.
void check_same_model(const Shard& first, const Shard& other) {
  static constexpr std::array kIdentity{
      "arch_name",           "hidden_size",           "num_layers",
      "num_attention_heads", "num_kv_heads",          "head_dim",
      "vocab_size",          "layer_types",           "linear_core",
      "anchor_core",         "linear_num_key_heads",  "linear_num_value_heads",
      "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"};
  const auto value = [](const Shard& shard, const char* key) {
    const auto found = shard.header.arch().find(key);
    return found == shard.header.arch().end() ? Json() : *found;
  };
  for (const char* key : kIdentity) {
    if (value(first, key) == value(other, key)) continue;
    fail(ErrorKind::kInput,
         "{}: header: arch.{} differs from that of {}; the shards belong to different models",
         other.file.path().string(), key, first.file.path().string());
  }
}

Shard open_sibling(const Shard& first, const fs::path& path, const ShardNumber& expected) {
  if (!fs::exists(path)) {
    fail(ErrorKind::kIo,
         "{}: shard {} of {} is missing (it belongs to {}); put all shards in one folder",
         path.string(), expected.number, expected.count, first.file.path().string());
  }
  Shard shard = open_shard(path);
  const std::optional<ShardNumber> found = shard_number(shard.header);
  if (!found || found->number != expected.number || found->count != expected.count) {
    fail(ErrorKind::kInput,
         "{}: header: must say shard {} of {}, says {}; the files were renamed or mixed up",
         path.string(), expected.number, expected.count,
         found ? fmt::format("shard {} of {}", found->number, found->count)
               : "nothing about shards");
  }
  check_same_model(first, shard);
  const Envelope& e = shard.envelope;
  if (e.masks.length > 0 || e.vocab.length > 0 || e.index.length > 0) {
    shard.warnings.push_back(fmt::format(
        "{}: has masks, vocab or index of its own; those of shard 1 are used", path.string()));
  }
  return shard;
}

}  // namespace

Shard open_shard(const fs::path& path) {
  Shard shard(path);
  const std::string where = path.string();
  shard.envelope = parse_envelope(shard.file.bytes(), where);
  const ByteSpan text = shard.section(shard.envelope.header);
  shard.header = Header::parse({reinterpret_cast<const char*>(text.data()), text.size()}, where);
  shard.entries = parse_directory(shard.section(shard.envelope.directory), where);
  check_feature_bits(shard, where);
  const ByteSpan data = shard.section(shard.envelope.data);
  for (const DirectoryEntry& entry : shard.entries) check_entry(entry, data, where);
  shard.warnings = overlap_warnings(shard.entries, where);
  (void)read_mask_names(shard.section(shard.envelope.masks), where);
  (void)read_mask_index_count(shard.section(shard.envelope.index), where);
  return shard;
}

std::vector<Shard> open_siblings(Shard first) {
  std::vector<Shard> shards;
  const std::optional<ShardNumber> set = shard_number(first.header);
  if (!set) {
    shards.push_back(std::move(first));
    return shards;
  }
  const std::string where = first.file.path().string();
  if (set->number != 1 || set->count == 0) {
    fail(ErrorKind::kInput, "{}: header: this is shard {} of {}; give the path of shard 1", where,
         set->number, set->count);
  }
  const std::string stem = stem_of(first, *set);
  const fs::path folder = first.file.path().parent_path();
  shards.push_back(std::move(first));
  for (std::uint64_t number = 2; number <= set->count; ++number) {
    const fs::path path = folder / sibling_name(stem, number, set->count);
    shards.push_back(open_sibling(shards.front(), path, {number, set->count}));
  }
  return shards;
}

}  // namespace cortiq::cmf
