#include "cache_identity.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache_layout.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::calib {
namespace {

using Json = nlohmann::ordered_json;

std::string yes_no(bool value) { return value ? "on" : "off"; }

std::string short_hash(const std::string& hash) {
  return hash.empty() ? "unknown" : hash.substr(0, 12);
}

void compare(std::vector<std::string>& found, std::string_view what, const std::string& wanted,
             const std::string& cached) {
  if (wanted != cached)
    found.push_back(fmt::format("{}: {} here, {} in the cache", what, wanted, cached));
}

void compare_hash(std::vector<std::string>& found, std::string_view what, const std::string& wanted,
                  const std::string& cached) {
  if (wanted != cached) compare(found, what, short_hash(wanted), short_hash(cached));
}

std::string parts_text(const CacheIdentity& identity) {
  if (identity.part_count == 1) return "all";
  return fmt::format("{} of {}", fmt::join(identity.parts, ", "), identity.part_count);
}

/// Ascending numbers of `what`, from `first`, below `end`.
std::vector<std::int64_t> read_numbers(const Json& json, std::string_view where,
                                       std::string_view what, std::int64_t first,
                                       std::int64_t end) {
  std::vector<std::int64_t> numbers;
  for (const Json& item : json.at("numbers")) {
    const auto number = item.get<std::int64_t>();
    if (number < first || number >= end || (!numbers.empty() && number <= numbers.back())) {
      fail(ErrorKind::kInput,
           "{}: {} {} of {} is no ascending list; delete it and capture the cache again", where,
           what, number, json.at("of").get<std::int64_t>());
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::string source_text(const SourceReport& source) {
  return fmt::format("{} ({} tokens, sha256 {})", source.file, source.tokens_used,
                     short_hash(source.sha256));
}

}  // namespace

std::filesystem::path sidecar_path(const std::filesystem::path& cache) {
  return cache.string() + ".json";
}

void check_sidecar(const std::filesystem::path& cache) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20;
  const std::filesystem::path path = sidecar_path(cache);
  check_replaceable(path);
  std::error_code code;
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) return;  // nothing is there
  if (bytes <= kMostBytes) {
    const Json json = Json::parse(read_text_file(path), nullptr, false);
    if (json.is_object() && json.contains("magic") && json["magic"] == layout::kMagic) return;
  }
  fail(ErrorKind::kRefused,
       "{}: exists and is no identity file of a Hessian cache, but that of {} is written under this "
       "name; move or remove it, or choose another name for the cache",
       path.string(), cache.string());
}

std::vector<std::string> identity_differences(const CacheIdentity& wanted,
                                              const CacheIdentity& cached) {
  std::vector<std::string> found;
  compare_hash(found, "model", wanted.model_hash, cached.model_hash);
  compare_hash(found, "tokenizer", wanted.tokenizer_hash, cached.tokenizer_hash);
  compare(found, "tokens", std::to_string(wanted.tokens), std::to_string(cached.tokens));
  compare(found, "window", std::to_string(wanted.window), std::to_string(cached.window));
  compare(found, "bos", yes_no(wanted.bos), yes_no(cached.bos));
  compare(found, "parts", parts_text(wanted), parts_text(cached));
  compare(found, "sources", std::to_string(wanted.sources.size()),
          std::to_string(cached.sources.size()));
  const std::size_t common = std::min(wanted.sources.size(), cached.sources.size());
  for (std::size_t i = 0; i < common; ++i) {
    const SourceReport& here = wanted.sources[i];
    const SourceReport& there = cached.sources[i];
    if (here.sha256 == there.sha256 && here.tokens_used == there.tokens_used) continue;
    compare(found, fmt::format("source {}", i + 1), source_text(here), source_text(there));
  }
  return found;
}

std::string identity_to_json(const CacheIdentity& identity, const CacheFileFacts& facts) {
  Json sources = Json::array();
  for (const SourceReport& source : identity.sources) {
    sources.push_back({{"file", source.file},
                       {"sha256", source.sha256},
                       {"share", source.share},
                       {"tokens", source.tokens_used},
                       {"tokens_wanted", source.tokens_wanted}});
  }
  Json json;
  json["magic"] = layout::kMagic;
  // The Hessians belong to the model that was run; which file they quantize later does not matter
  // to them.
  json["model_hash"] = identity.model_hash;
  json["calib_model_hash"] = identity.model_hash;
  json["tokenizer_hash"] = identity.tokenizer_hash;
  json["sources"] = std::move(sources);
  json["tokens"] = identity.tokens;
  json["window"] = identity.window;
  json["bos"] = identity.bos;
  if (identity.part_count > 1)
    json["part"] = {{"numbers", identity.parts}, {"of", identity.part_count}};
  if (!identity.layers.whole())
    json["layers"] = {{"numbers", identity.layers.numbers}, {"of", identity.layers.count}};
  json["tool_version"] = CORTIQ_VERSION;
  json["entries"] = facts.entries;
  json["bytes"] = facts.bytes;
  json["sha256"] = facts.sha256;
  // A file name need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

CacheIdentity identity_from_json(std::string_view text, std::string_view where,
                                 CacheFileFacts& facts) {
  CacheIdentity identity;
  try {
    const Json json = Json::parse(text.begin(), text.end());
    if (json.at("magic").get<std::string>() != layout::kMagic) {
      fail(ErrorKind::kInput, "{}: belongs to no Hessian cache (magic is not {}); delete it", where,
           layout::kMagic);
    }
    identity.model_hash = json.value("calib_model_hash", json.value("model_hash", std::string()));
    identity.tokenizer_hash = json.value("tokenizer_hash", std::string());
    identity.tokens = json.at("tokens").get<std::int64_t>();
    identity.window = json.at("window").get<std::int64_t>();
    identity.bos = json.at("bos").get<bool>();
    for (const Json& item : json.at("sources")) {
      SourceReport source;
      source.file = item.at("file").get<std::string>();
      source.sha256 = item.at("sha256").get<std::string>();
      source.share = item.value("share", 1.0);
      source.tokens_used = item.at("tokens").get<std::int64_t>();
      source.tokens_wanted = item.value("tokens_wanted", source.tokens_used);
      identity.sources.push_back(std::move(source));
    }
    if (json.contains("part")) {
      const Json& part = json["part"];
      identity.part_count = part.at("of").get<std::int64_t>();
      identity.parts = read_numbers(part, where, "part", 1, identity.part_count + 1);
    }
    if (json.contains("layers")) {
      const Json& layers = json["layers"];
      identity.layers.count = layers.at("of").get<std::int64_t>();
      identity.layers.numbers = read_numbers(layers, where, "layer", 0, identity.layers.count);
    }
    facts.entries = json.at("entries").get<std::uint64_t>();
    facts.bytes = json.at("bytes").get<std::uint64_t>();
    facts.sha256 = json.value("sha256", std::string());
  } catch (const Json::exception& error) {
    fail(ErrorKind::kInput,
         "{}: is no valid identity of a Hessian cache: {}; delete it and capture the cache again",
         where, error.what());
  }
  return identity;
}

}  // namespace cortiq::calib
