// read_array.hpp: files of plain numbers, as numpy's tofile() writes them.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cortiq/support/file.hpp"

namespace cortiq::test {

template <typename T>
std::vector<T> read_array(const std::filesystem::path& path) {
  const std::string bytes = read_text_file(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace cortiq::test
