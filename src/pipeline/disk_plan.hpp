// disk_plan.hpp: what a run lays on disk, and whether it fits there before the work begins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cortiq::pipeline {

/// Bytes under one name, all of them at the same time as those of the other items.
struct DiskItem {
  std::string what;  ///< "output", "hidden states"
  std::filesystem::path path;  ///< of the file; of a temporary one, its folder and any name
  std::uint64_t bytes = 0;
};

/// "output 12.0 MB, hidden states 3.0 MB in /tmp; 15.0 MB of 900.0 MB that are free": one clause per
/// file system. What an unfinished file (PATH.partial) occupies already is not counted again.
[[nodiscard]] std::string disk_text(const std::vector<DiskItem>& items);

/// Error{kRefused} with names and numbers if a file system has less free than lies there at most.
/// One whose free space is not known passes.
void check_disk(const std::vector<DiskItem>& items);

}  // namespace cortiq::pipeline
