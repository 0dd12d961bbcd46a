// weight_files.hpp: the safetensors files of a folder, mapped and checked as one set.
#pragma once

#include <filesystem>
#include <vector>

#include "cortiq/hf/safetensors.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::hf {

struct WeightFile {
  MappedFile file;
  std::vector<SafetensorsEntry> entries;
};

/// model.safetensors, else the files that model.safetensors.index.json names, sorted by name. All
/// of them are opened. Throws Error{kInput}: no weights, a file that is missing or damaged, a
/// tensor that the index puts elsewhere, a tensor that occurs twice. The message lists every
/// missing file.
[[nodiscard]] std::vector<WeightFile> open_weight_files(const std::filesystem::path& folder);

}  // namespace cortiq::hf
