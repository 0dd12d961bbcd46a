#include "cortiq/calib/teacher.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <system_error>
#include <vector>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "line_reader.hpp"
#include "teacher_files.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using teacher::Record;

class TeacherReader {
 public:
  TeacherReader(const TeacherSelector& selector, const TeacherOptions& options)
      : selector_(selector),
        options_(options),
        manifest_(teacher::read_manifest(selector.folder)),
        records_(selector.folder / "records.jsonl"),
        index_(selector.folder / "tokens.idx"),
        tokens_(selector.folder / "tokens.bin") {
    const ReadFile prompts(selector.folder / "prompts.jsonl");  // must open
    check_size(index_, teacher::kIndexEntryBytes);
    check_size(tokens_, sizeof(std::uint32_t));
    if (!options.verify) return;
    teacher::verify_files(selector.folder, manifest_);
    if (manifest_.input_format == "jsonl-v1")
      prompts_ = std::make_unique<teacher::Prompts>(selector.folder, manifest_);
  }

  void check_tokenizer(Log& log) const {
    teacher::check_tokenizer(selector_.folder, manifest_.tokenizer, options_.tokenizer, log);
  }
  TeacherWindows run() {
    LineReader lines(records_, 0, teacher::kMaxLineBytes);
    std::string_view line;
    while ((options_.verify || !enough()) && lines.next(line)) take(line);
    if (options_.verify || !enough()) check_end();
    if (usable_ == 0) {
      fail(ErrorKind::kInput,
           "{}: no usable record is in split {} with this share; choose another split or a larger "
           "share",
           selector_.folder.string(), selector_.split);
    }
    result_.sha256 = hash_.finish();
    return std::move(result_);
  }

 private:
  static void check_size(const ReadFile& file, std::uint64_t unit) {
    if (file.size() % unit == 0) return;
    fail(ErrorKind::kInput, "{}: its {} bytes are no multiple of {}; the file is cut short",
         file.path().string(), file.size(), unit);
  }
  [[nodiscard]] bool enough() const { return result_.windows.tokens() >= options_.tokens; }
  [[nodiscard]] std::uint64_t entries() const { return index_.size() / teacher::kIndexEntryBytes; }
  [[nodiscard]] std::uint64_t all_tokens() const { return tokens_.size() / sizeof(std::uint32_t); }

  void take(std::string_view line);
  void add_windows(const Record& record, const std::string& where);
  void check_end() const;

  const TeacherSelector& selector_;
  const TeacherOptions& options_;
  teacher::Manifest manifest_;
  ReadFile records_;
  ReadFile index_;
  ReadFile tokens_;
  std::unique_ptr<teacher::Prompts> prompts_;
  std::uint64_t row_ = 0;
  std::uint64_t sum_ = 0;  // of the tokens of the rows so far
  std::int64_t usable_ = 0;
  Sha256 hash_;
  TeacherWindows result_;
};

void TeacherReader::take(std::string_view line) {
  const std::string where = fmt::format("{}: line {}", records_.path().string(), row_ + 1);
  if (row_ >= entries()) {
    fail(ErrorKind::kInput, "{}: tokens.idx has only {} entries; the teacher data is damaged", where,
         entries());
  }
  std::byte entry[teacher::kIndexEntryBytes];
  index_.read_exact(row_ * teacher::kIndexEntryBytes, entry);
  const Record record = teacher::parse_record(line, entry, row_, where);
  if (record.offset != sum_) {
    fail(ErrorKind::kInput, "{}: its tokens begin at {} and those before it end at {}", where,
         record.offset, sum_);
  }
  if (record.tokens > all_tokens() - std::min(record.offset, all_tokens()))
    fail(ErrorKind::kInput, "{}: its tokens pass the end of tokens.bin", where);
  if (prompts_) prompts_->use(record.pid, record.split, where);
  sum_ += record.tokens;
  ++row_;
  const bool selected = record.usable &&
                        (selector_.split == "all" || selector_.split == record.split) &&
                        selector_.keeps(record.rid);
  if (!selected) return;
  ++usable_;
  add_windows(record, where);
}

void TeacherReader::add_windows(const Record& record, const std::string& where) {
  // Read and checked whatever the budget, so that verification covers every selected record.
  std::vector<std::uint32_t> raw(record.tokens);
  tokens_.read_exact(record.offset * sizeof(std::uint32_t),
                     std::as_writable_bytes(std::span(raw)));
  const std::uint64_t bound =
      options_.vocab > 0 ? static_cast<std::uint64_t>(options_.vocab)
                         : static_cast<std::uint64_t>(std::numeric_limits<model::TokenId>::max());
  const auto bad =
      std::find_if(raw.begin(), raw.end(), [bound](std::uint32_t id) { return id >= bound; });
  if (bad != raw.end()) {
    fail(ErrorKind::kInput,
         "{}: token id {} is outside the model's vocabulary of {}; the teacher data was made with "
         "another tokenizer",
         where, *bad, bound);
  }
  const std::vector<model::TokenId> ids(raw.begin(), raw.end());
  const auto window = static_cast<std::size_t>(std::max<std::int64_t>(options_.window, 2));
  bool used = false;
  for (std::size_t begin = 0; begin < ids.size() && !enough(); begin += window) {
    const std::size_t length = std::min(window, ids.size() - begin);
    if (length < 2) break;
    const auto left = static_cast<std::size_t>(options_.tokens - result_.windows.tokens());
    const std::size_t count = std::max<std::size_t>(std::min(length, left), 2);
    const std::span<const model::TokenId> piece = std::span(ids).subspan(begin, count);
    result_.windows.add(piece);
    hash_.update(std::as_bytes(piece));
    used = true;
  }
  result_.records += used ? 1 : 0;
}

/// What can be said only behind the last record.
void TeacherReader::check_end() const {
  if (row_ != entries()) {
    fail(ErrorKind::kInput, "{}: has {} records and tokens.idx has {}; the teacher data is damaged",
         records_.path().string(), row_, entries());
  }
  if (sum_ != all_tokens()) {
    fail(ErrorKind::kInput, "{}: holds {} tokens and the records have {}; the teacher data is damaged",
         tokens_.path().string(), all_tokens(), sum_);
  }
  if (manifest_.records && *manifest_.records != row_) {
    fail(ErrorKind::kInput, "{}: has {} records and the manifest says {}",
         records_.path().string(), row_, *manifest_.records);
  }
  if (prompts_) prompts_->check_all_used();
}

}  // namespace

void check_teacher_folder(const TeacherSelector& selector) {
  std::error_code ignored;
  if (!fs::is_directory(selector.folder, ignored)) {
    fail(ErrorKind::kIo, "{}: there is no such folder of teacher data; check the path",
         selector.folder.string());
  }
  (void)teacher::read_manifest(selector.folder);
}

TeacherWindows read_teacher(const TeacherSelector& selector, const TeacherOptions& options,
                            Log& log) {
  TeacherReader reader(selector, options);
  reader.check_tokenizer(log);
  const TeacherWindows windows = reader.run();
  log.info("{}: {} records of split {}{}", selector.folder.string(), windows.records,
           selector.split,
           options.verify ? ", all files verified" : ", not verified (--verify-tdata off)");
  return windows;
}

}  // namespace cortiq::calib
