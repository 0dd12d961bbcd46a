#include "teacher_files.hpp"

#include <array>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/cmf/json_problem.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"
#include "line_reader.hpp"

namespace cortiq::calib::teacher {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kKnownFiles{"prompts.jsonl", "records.jsonl",
                                                      "tokens.idx", "tokens.bin", "topk.bin"};
constexpr std::string_view kRemedy = "the teacher data is damaged, make or copy it again";
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;

std::optional<std::uint64_t> optional_count(const Json& json, const char* object, const char* key,
                                            const fs::path& path) {
  const auto outer = json.find(object);
  if (outer == json.end() || !outer->is_object()) return std::nullopt;
  const auto value = outer->find(key);
  if (value == outer->end()) return std::nullopt;
  if (!value->is_number_unsigned())
    fail(ErrorKind::kInput, "{}: {}.{} is no count; {}", path.string(), object, key, kRemedy);
  return value->get<std::uint64_t>();
}

FileFacts file_facts(const Json& json, const fs::path& path, std::string_view name) {
  const auto bytes = json.find("bytes");
  const auto hash = json.find("sha256");
  if (bytes == json.end() || !bytes->is_number_unsigned() || hash == json.end() ||
      !hash->is_string())
    fail(ErrorKind::kInput, "{}: files.{} has no bytes and sha256; {}", path.string(), name,
         kRemedy);
  return {bytes->get<std::uint64_t>(), hash->get<std::string>()};
}

/// The object "tokenizer", which sets without a model behind them lack.
TokenizerFacts tokenizer_facts(const Json& json, const fs::path& path) {
  const auto tokenizer = json.find("tokenizer");
  if (tokenizer == json.end() || tokenizer->is_null()) return {};
  const auto damaged = [&path](std::string_view what) {
    fail(ErrorKind::kInput, "{}: tokenizer{}; {}", path.string(), what, kRemedy);
  };
  if (!tokenizer->is_object()) damaged(" is no object");
  TokenizerFacts facts;
  if (const auto size = optional_count(json, "tokenizer", "vocab_size", path)) {
    if (*size < 1 || *size > std::uint64_t{1} << 31) damaged(".vocab_size is not possible");
    facts.size = static_cast<std::int64_t>(*size);
  }
  const auto hash = tokenizer->find("vocab_sha256");
  if (hash == tokenizer->end()) return facts;
  if (!hash->is_string()) damaged(".vocab_sha256 is no text");
  facts.sha256 = hash->get<std::string>();
  return facts;
}

std::string tokenizer_text(const TokenizerFacts& facts) {
  std::string text = facts.size > 0 ? fmt::format("{} tokens", facts.size) : "unknown size";
  if (!facts.sha256.empty()) text += ", sha256 " + facts.sha256;
  return text;
}

Manifest manifest_from_json(const Json& json, const fs::path& path) {
  const auto expect = [&](bool right, std::string_view what) {
    if (!right) fail(ErrorKind::kInput, "{}: {}", path.string(), what);
  };
  expect(json.is_object() && json.value("format", Json()) == "cmf-tdata",
         "is no manifest of teacher data (format is not cmf-tdata); give the folder of a set");
  expect(json.value("version", Json()) == 1,
         "only version 1 of teacher data is known; write the set in that version");
  expect(json.value("complete", Json()) == true,
         "the set is not complete; finish it before it is used");
  Manifest manifest;
  manifest.records = optional_count(json, "stats", "records", path);
  manifest.prompts = optional_count(json, "prompts", "count", path);
  const auto input = json.find("input");
  if (input != json.end() && input->is_object()) {
    const Json format = input->value("format", Json());
    if (format.is_string()) manifest.input_format = format.get<std::string>();
  }
  manifest.tokenizer = tokenizer_facts(json, path);
  const auto files = json.find("files");
  if (files == json.end()) return manifest;
  expect(files->is_object(), fmt::format("files is no object; {}", kRemedy));
  for (const std::string_view name : kKnownFiles) {
    const auto entry = files->find(std::string(name));
    if (entry != files->end())
      manifest.files.emplace(name, file_facts(*entry, path, name));
  }
  return manifest;
}

/// Text of a key that must hold a non-empty string.
std::string required_text(const Json& json, const char* key, const std::string& where) {
  const auto value = json.find(key);
  if (value != json.end() && value->is_string() && !value->get_ref<const std::string&>().empty())
    return value->get<std::string>();
  fail(ErrorKind::kInput, "{}: {} is no text; {}", where, key, kRemedy);
}

}  // namespace

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  const std::string text = read_text_file(path, kMaxManifestBytes);
  if (const std::string problem = cmf::json_problem(text); !problem.empty())
    fail(ErrorKind::kInput, "{}: {}; {}", path.string(), problem, kRemedy);
  return manifest_from_json(Json::parse(text), path);
}

void check_tokenizer(const fs::path& folder, const TokenizerFacts& teacher,
                     const TokenizerFacts& model, Log& log) {
  const bool hashes = !teacher.sha256.empty() && !model.sha256.empty();
  if (hashes && teacher.sha256 == model.sha256) return;
  const std::string both = fmt::format("tokenizer: {} in the teacher data; {} in the model",
                                       tokenizer_text(teacher), tokenizer_text(model));
  const std::string path = (folder / "manifest.json").string();
  if (teacher.size > 0 && model.size > 0 && teacher.size != model.size) {
    fail(ErrorKind::kRefused,
         "{}: {}; the token ids mean something else there, so make the teacher data anew with the "
         "model's tokenizer",
         path, both);
  }
  if (hashes) {
    log.warn(
        "{}: {}; if these are not two spellings of one tokenizer, the token ids mean something else",
        path, both);
  }
}

void verify_files(const fs::path& folder, const Manifest& manifest) {
  for (const auto& [name, facts] : manifest.files) {
    const fs::path path = folder / name;
    const std::uint64_t bytes = ReadFile(path).size();
    if (bytes != facts.bytes) {
      fail(ErrorKind::kInput,
           "{}: has {} bytes and its manifest says {}; the file is damaged or was replaced, copy the set again",
           path.string(), bytes, facts.bytes);
    }
    const std::string hash = sha256_file(path);
    if (hash != facts.sha256) {
      fail(ErrorKind::kInput,
           "{}: sha256 mismatch (manifest {}, computed {}); the file is damaged or was replaced, copy the set again",
           path.string(), facts.sha256, hash);
    }
  }
}

Prompts::Prompts(const fs::path& folder, const Manifest& manifest)
    : path_(folder / "prompts.jsonl") {
  const ReadFile file(path_);
  LineReader lines(file, 0, kMaxLineBytes);
  std::string_view line;
  for (std::uint64_t number = 1; lines.next(line); ++number) {
    const std::string where = fmt::format("{}: line {}", path_.string(), number);
    if (const std::string problem = cmf::json_problem(line); !problem.empty())
      fail(ErrorKind::kInput, "{}: {}; {}", where, problem, kRemedy);
    const Json json = Json::parse(line.begin(), line.end());
    if (!json.is_object()) fail(ErrorKind::kInput, "{}: is no JSON object; {}", where, kRemedy);
    const std::string id = required_text(json, "id", where);
    const std::string split = required_text(json, "split", where);
    if (split != "train" && split != "val" && split != "test")
      fail(ErrorKind::kInput, "{}: split '{}' is none of train, val, test; {}", where, split,
           kRemedy);
    const auto messages = json.find("messages");
    if (messages == json.end() || !messages->is_array() || messages->empty())
      fail(ErrorKind::kInput, "{}: has no messages; {}", where, kRemedy);
    if (!splits_.emplace(id, split).second)
      fail(ErrorKind::kInput, "{}: the id {} occurs twice; {}", where, id, kRemedy);
  }
  if (manifest.prompts && *manifest.prompts != splits_.size()) {
    fail(ErrorKind::kInput, "{}: has {} prompts and the manifest says {}; {}", path_.string(),
         splits_.size(), *manifest.prompts, kRemedy);
  }
}

void Prompts::use(const std::string& id, const std::string& split, const std::string& where) {
  const auto found = splits_.find(id);
  if (found == splits_.end())
    fail(ErrorKind::kInput, "{}: its prompt {} is not in {}; {}", where, id, path_.string(), kRemedy);
  if (found->second != split) {
    fail(ErrorKind::kInput, "{}: has split {} and its prompt {} has {}; {}", where, split, id,
         found->second, kRemedy);
  }
  used_.insert(id);
}

void Prompts::check_all_used() const {
  for (const auto& [id, split] : splits_) {
    if (used_.contains(id)) continue;
    fail(ErrorKind::kInput, "{}: prompt {} has no record; the teacher data is incomplete, copy it again",
         path_.string(), id);
  }
}

}  // namespace cortiq::calib::teacher
