#include "weight_files.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "cortiq/hf/names.hpp"
#include "fields.hpp"

namespace cortiq::hf {
namespace {

namespace fs = std::filesystem;
/// Sorted keys: an index of hundred thousand entries must not cost quadratic time.
using IndexJson = nlohmann::json;
using WeightMap = std::map<std::string, std::string>;

constexpr std::uint64_t kMaxIndexBytes = 256'000'000;

[[noreturn]] void fail_no_weights(const fs::path& folder) {
  std::string found;
  for (const fs::directory_entry& item : fs::directory_iterator(folder)) {
    const std::string extension = item.path().extension().string();
    if (extension == ".bin" || extension == ".pth" || extension == ".pt" || extension == ".gguf") {
      found = item.path().filename().string();
    }
  }
  fail(ErrorKind::kInput,
       "{}: has neither model.safetensors nor model.safetensors.index.json{}; give the folder of a "
       "model in safetensors format",
       folder.string(), found.empty() ? "" : fmt::format(" (found {}, which is not read)", found));
}

WeightMap read_index(const fs::path& path) {
  const std::string text = read_text_file(path, kMaxIndexBytes);
  const auto damaged = [&](std::string_view why) {
    fail(ErrorKind::kInput, "{}: {}; the file is damaged, download it again", path.string(), why);
  };
  const IndexJson index = IndexJson::parse(text, nullptr, false);
  if (index.is_discarded() || !index.is_object()) damaged("is not a JSON object");
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty()) damaged("has no weight_map");
  WeightMap map;
  for (const auto& [name, file] : found->items()) {
    if (!file.is_string()) damaged(fmt::format("weight_map of {} is not a file name", name));
    const std::string file_name = file.get<std::string>();
    if (file_name.empty() || file_name != fs::path(file_name).filename().string()) {
      damaged(fmt::format("weight_map of {} is \"{}\", not a plain file name", name, file_name));
    }
    map.emplace(name, file_name);
  }
  return map;
}

std::vector<fs::path> shard_paths(const fs::path& folder, const WeightMap& map) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  std::vector<fs::path> paths;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    paths.push_back(folder / name);
    if (!fs::exists(paths.back())) missing.push_back(name);
  }
  if (!missing.empty()) {
    fail(ErrorKind::kInput, "{}: {} of {} weight files missing: {}; download them into the folder",
         folder.string(), missing.size(), names.size(), fmt::join(missing, ", "));
  }
  return paths;
}

WeightFile open_file(const fs::path& path) {
  MappedFile file(path);
  std::vector<SafetensorsEntry> entries = parse_safetensors(file.bytes(), path.string());
  return {std::move(file), std::move(entries)};
}

/// Every tensor in exactly the file that the index names.
void check_against_index(const std::vector<WeightFile>& files, const WeightMap& map,
                         const fs::path& index_path) {
  std::set<std::string_view> seen;
  for (const WeightFile& file : files) {
    const std::string name = file.file.path().filename().string();
    for (const SafetensorsEntry& entry : file.entries) {
      const auto found = map.find(entry.name);
      if (found == map.end()) {
        if (!map_name(entry.name)) continue;  // not a part of the text model
        fail(ErrorKind::kInput,
             "{}: tensor {} is not in {}; a file of another model in the folder? download it again",
             file.file.path().string(), entry.name, index_path.filename().string());
      }
      if (found->second != name) {
        fail(ErrorKind::kInput,
             "{}: holds tensor {}, which the index puts into {}; a copy under the wrong name? "
             "download "
             "both again",
             file.file.path().string(), entry.name, found->second);
      }
      seen.insert(entry.name);
    }
  }
  for (const auto& [tensor, file] : map) {
    if (seen.contains(tensor)) continue;
    fail(ErrorKind::kInput,
         "{}: tensor {} (and {} more) is not in {} as the index says; the file is from another "
         "model or "
         "damaged, download it again",
         index_path.string(), tensor, map.size() - seen.size() - 1, file);
  }
}

}  // namespace

std::vector<WeightFile> open_weight_files(const fs::path& folder) {
  std::vector<WeightFile> files;
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(single)) {
    files.push_back(open_file(single));
    return files;
  }
  if (!fs::exists(index)) fail_no_weights(folder);
  const WeightMap map = read_index(index);
  for (const fs::path& path : shard_paths(folder, map)) files.push_back(open_file(path));
  check_against_index(files, map, index);
  return files;
}

}  // namespace cortiq::hf
