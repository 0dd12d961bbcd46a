#include <cstdlib>

#include "model_options.hpp"

namespace cortiq::app {

void add_device_options(CLI::App& command, pipeline::DeviceOptions& options) {
  command
      .add_option("--device", options.device,
                  "Where to fold and sweep: auto (a graphics card if there is one), cpu, or "
                  "vulkan[:INDEX|:NAME|:UUID][,...] (see `devices`)")
      ->capture_default_str();
  command.add_option("--vram-gb", options.vram_gb,
                     "Device memory to use, GB (default: 95 % of what is free)");
  options.cache_folder = kernel_cache_folder();
}

std::optional<std::filesystem::path> kernel_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "cortiq-quant";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "cortiq-quant";
  return std::nullopt;
}

}  // namespace cortiq::app
