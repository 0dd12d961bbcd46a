#include "run_program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "data_dirs.hpp"

extern char** environ;

namespace cortiq::test {
namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool same_bytes(const fs::path& a, const fs::path& b) {
  return fs::exists(a) && fs::exists(b) && read_file(a) == read_file(b);
}

ProgramResult run_program(const std::vector<std::string>& arguments, const RunOptions& options) {
  static int serial = 0;
  const fs::path folder = scratch_dir("run-" + std::to_string(serial++));
  const fs::path out = folder / "stdout";
  const fs::path err = folder / "stderr";
  std::vector<std::string> words{program().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> environment(options.environment);
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  std::vector<char*> envp;
  for (std::string& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);

  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    if (options.as_nobody && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(126);
    const rlimit limit{options.file_limit, options.file_limit};
    if (options.file_limit > 0 && ::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(126);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  int status = 0;
  bool ended = false;
  rusage usage{};
  if (options.interrupt_after_ms > 0) {
    using Clock = std::chrono::steady_clock;
    const auto moment = Clock::now() + std::chrono::milliseconds(options.interrupt_after_ms);
    while (!ended && Clock::now() < moment) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      ended = ::wait4(child, &status, WNOHANG, &usage) == child;
    }
    if (!ended) ::kill(child, options.interrupt_signal);
  }
  if (!ended) ::wait4(child, &status, 0, &usage);
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.peak_mb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

}  // namespace cortiq::test
