// run_journal.hpp: what an interrupted GPTQ run has finished, beside OUT.partial, so that another
// run can continue (docs/adr/0007-resume.md).
//
// OUT.partial.journal is text: one line per event, each "<hash64 of the rest> <JSON>". The first
// line holds the fingerprint of the run: everything that decides its bytes. A line that a kill cut
// short ends the journal. A tensor counts as finished only if its payload in OUT.partial has the
// checksum of its line, so the order in which the system writes the two files does not matter.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/cmf/writer.hpp"
#include "cortiq/pipeline/report.hpp"
#include "cortiq/support/append_file.hpp"

namespace cortiq::pipeline {

/// OUT.partial.journal.
[[nodiscard]] std::filesystem::path journal_path(const std::filesystem::path& output);

/// What a journal says.
struct Leftover {
  struct Tensor {
    std::uint64_t hash = 0;
    cmf::Json report;
  };
  cmf::Json fingerprint;
  std::map<std::size_t, Tensor> tensors;
  std::vector<std::string> warnings;
  std::optional<calib::CachePrefix> cache;  ///< of the Hessian cache that the run was writing
  std::string cache_file;
  std::uint64_t bytes = 0;                  ///< of the lines that are whole
};
/// nullopt if OUT.partial or its journal is missing, or the journal has not even its first line.
[[nodiscard]] std::optional<Leftover> read_leftover(const std::filesystem::path& output);

/// Error{kRefused} if OUT.partial or its journal is there and no run of this program left it: both
/// would be overwritten.
void check_no_foreign_leftover(const std::filesystem::path& output);

/// "lambda: 0.02 here, 0.01 in the interrupted run" for every key that differs.
[[nodiscard]] std::vector<std::string> fingerprint_differences(const cmf::Json& here,
                                                               const cmf::Json& there);

/// Fields of a report that the output's provenance and the closing table need.
[[nodiscard]] cmf::Json tensor_report_json(const TensorReport& report);
/// Takes them over into a report that has its name, shape and sizes.
void restore_tensor_report(const cmf::Json& json, TensorReport& report);

class RunJournal {
 public:
  /// A new journal, or the continuation of one. Keeps a reference to the writer.
  RunJournal(const std::filesystem::path& output, const cmf::Json& fingerprint,
             cmf::Writer& writer);
  RunJournal(const std::filesystem::path& output, const Leftover& leftover, cmf::Writer& writer);

  /// Thread safe. The tensor has been written and its report is complete.
  void finished(std::size_t index, const TensorReport& report);
  void warning(const std::string& text);
  void cache(const std::filesystem::path& file, const calib::CachePrefix& prefix);
  /// Tensors of this run and of those before.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// The run is complete: the journal goes.
  void remove();

 private:
  void append(const cmf::Json& line);

  std::mutex mutex_;
  cmf::Writer& writer_;
  AppendFile file_;
  std::size_t count_ = 0;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

}  // namespace cortiq::pipeline
