#include "disk_plan.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

/// The items of one file system; files of one kind count as one.
struct Volume {
  struct Part : DiskItem {
    std::int64_t files = 1;
  };
  std::uint64_t device = 0;
  std::vector<Part> parts;
  std::uint64_t needed = 0;
  std::optional<std::uint64_t> available;
};

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// Blocks that PATH.partial, which will be written over, has already.
std::uint64_t held_bytes(const fs::path& path) {
  constexpr std::uint64_t kBlockBytes = 512;  // of st_blocks
  struct stat status {};
  if (::stat((path.string() + ".partial").c_str(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
}

std::vector<Volume> volumes_of(const std::vector<DiskItem>& items) {
  std::vector<Volume> volumes;
  for (const DiskItem& item : items) {
    const auto identity = file_identity(folder_of(item.path));
    if (!identity || item.bytes == 0) continue;  // a missing folder is refused elsewhere
    auto found = std::find_if(volumes.begin(), volumes.end(), [&](const Volume& volume) {
      return volume.device == identity->device;
    });
    if (found == volumes.end()) {
      volumes.push_back({identity->device, {}, 0, free_space_bytes(item.path)});
      found = volumes.end() - 1;
    }
    const auto same = std::find_if(found->parts.begin(), found->parts.end(),
                                   [&](const Volume::Part& part) { return part.what == item.what; });
    if (same == found->parts.end()) {
      found->parts.push_back({item});
    } else {
      same->bytes += item.bytes;
      ++same->files;
    }
    found->needed += item.bytes - std::min(item.bytes, held_bytes(item.path));
  }
  return volumes;
}

std::string mb(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

std::string disk_text(const std::vector<DiskItem>& items) {
  std::string text;
  for (const Volume& volume : volumes_of(items)) {
    if (!text.empty()) text += "; ";
    std::string parts;
    for (const Volume::Part& part : volume.parts)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", part.what, mb(part.bytes));
    text += fmt::format("{} in {}: {} of {} that are free", parts,
                        folder_of(volume.parts.front().path).string(), mb(volume.needed),
                        volume.available ? mb(*volume.available) : "an unknown number");
  }
  return text;
}

void check_disk(const std::vector<DiskItem>& items) {
  for (const Volume& volume : volumes_of(items)) {
    if (!volume.available || *volume.available >= volume.needed) continue;
    std::string parts;
    for (const Volume::Part& part : volume.parts) {
      parts += fmt::format("{}{} {}{} ({} bytes)", parts.empty() ? "" : ", ", part.what,
                           part.path.string(),
                           part.files > 1 ? fmt::format(" and {} more", part.files - 1) : "",
                           part.bytes);
    }
    fail(ErrorKind::kRefused,
         "not enough space on disk: {} need {} bytes and {} are free on the file system of {}; free "
         "some space, or choose another place with --output, --hessians or --spill",
         parts, volume.needed, *volume.available,
         folder_of(volume.parts.front().path).string());
  }
}

}  // namespace cortiq::pipeline
