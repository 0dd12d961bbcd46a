// run_program.hpp: runs the built program (or another) and keeps what it printed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cortiq::test {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out;
  std::string err;
  double peak_mb = 0;  ///< most memory that was resident
};

struct RunOptions {
  std::vector<std::string> environment;  ///< extra NAME=VALUE
  int interrupt_after_ms = 0;            ///< send a signal after this time (0 = never)
  int interrupt_signal = 2;              ///< SIGINT
  bool as_nobody = false;                ///< drop root's rights first
  std::uint64_t file_limit = 0;          ///< most bytes of a file (ulimit -f; 0 = no limit)
};

/// Arguments are passed as they are, without a shell.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const RunOptions& options = {});

/// sha256-free equality of files.
bool same_bytes(const std::filesystem::path& a, const std::filesystem::path& b);
std::string read_file(const std::filesystem::path& path);

}  // namespace cortiq::test
