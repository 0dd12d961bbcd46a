#include "section_hashes.hpp"

#include "cortiq/cmf/hash64.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::cmf {
namespace {

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::optional<std::string> unless_zero(std::uint64_t hash) {
  return hash == 0 ? std::nullopt : std::optional(hex(hash));
}

std::string mismatch_text(std::string_view file, std::string_view part, std::string_view stored,
                          std::string_view computed) {
  return fmt::format("{}: {}: hash mismatch (stored {}, computed {}); the file is damaged", file,
                     part, stored, computed);
}

}  // namespace

Range range_of(const Envelope& envelope, SectionName name) {
  switch (name) {
    case SectionName::kHeader:
      return envelope.header;
    case SectionName::kDirectory:
      return envelope.directory;
    case SectionName::kMasks:
      return envelope.masks;
    case SectionName::kVocab:
      return envelope.vocab;
    case SectionName::kIndex:
      break;
  }
  return envelope.index;
}

std::string_view text_of(SectionName name) {
  switch (name) {
    case SectionName::kHeader:
      return "header";
    case SectionName::kDirectory:
      return "directory";
    case SectionName::kMasks:
      return "masks section";
    case SectionName::kVocab:
      return "vocab section";
    case SectionName::kIndex:
      break;
  }
  return "index section";
}

std::optional<std::string> hash_in_header(const Shard& shard, const char* key) {
  const Json& header = shard.header.json();
  const auto hashes = header.find("section_hashes");
  if (hashes == header.end() || !hashes->is_object()) return std::nullopt;
  const auto found = hashes->find(key);
  if (found == hashes->end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::string> recorded_hash(const Shard& shard, SectionName name) {
  if (range_of(shard.envelope, name).length == 0) return std::nullopt;
  switch (name) {
    case SectionName::kHeader:
      return unless_zero(shard.envelope.header_hash);
    case SectionName::kDirectory:
      return unless_zero(shard.envelope.directory_hash);
    case SectionName::kMasks:
      return hash_in_header(shard, "masks");
    case SectionName::kVocab:
      return hash_in_header(shard, "vocab");
    case SectionName::kIndex:
      break;
  }
  return hash_in_header(shard, "index");
}

std::string payload_mismatch_text(const Shard& shard, const TensorInfo& info,
                                  std::uint64_t computed) {
  return mismatch_text(shard.file.path().string(), "tensor " + info.name, hex(info.hash.value()),
                       hex(computed));
}

std::optional<std::string> hash_problem(const Shard& shard, SectionName name) {
  const std::optional<std::string> stored = recorded_hash(shard, name);
  if (!stored) return std::nullopt;
  const std::string computed = hex(hash64(shard.section(range_of(shard.envelope, name))));
  if (*stored == computed) return std::nullopt;
  return mismatch_text(shard.file.path().string(), text_of(name), *stored, computed);
}

void check_hash(const Shard& shard, SectionName name) {
  if (const auto problem = hash_problem(shard, name))
    fail(ErrorKind::kInput, "{}; {}", *problem, kDamageRemedy);
}

std::vector<std::string> section_problems(const Reader& reader) {
  std::vector<std::string> problems;
  for (const Shard& shard : reader.state().shards) {
    for (const SectionName name : {SectionName::kHeader, SectionName::kDirectory, SectionName::kMasks,
                                   SectionName::kVocab, SectionName::kIndex}) {
      if (auto problem = hash_problem(shard, name)) problems.push_back(std::move(*problem));
    }
  }
  return problems;
}

}  // namespace cortiq::cmf
