// hidden_states.cpp: the carried hidden states, in anonymous memory or in a mapped file that has no
// name any more.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "cortiq/model/forward.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::model {
namespace {

/// Closes a descriptor; the mapping outlives it.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

[[noreturn]] void fail_spill(const std::filesystem::path& folder, std::size_t bytes, int code) {
  fail(ErrorKind::kIo, "{}: temporary file of {} bytes for hidden states: {}; {}", folder.string(),
       bytes, std::strerror(code),
       is_out_of_room(code) ? "choose a folder with more room (--spill) or fewer tokens"
            : "choose another folder with --spill");
}

float* map_file(const std::filesystem::path& folder, std::size_t bytes) {
  std::string name = (folder / "hidden-states-XXXXXX").string();
  const Descriptor file{::mkstemp(name.data())};
  if (file.value < 0) fail_spill(folder, bytes, errno);
  ::unlink(name.c_str());
  const int code = ::posix_fallocate(file.value, 0, static_cast<off_t>(bytes));
  if (code != 0) fail_spill(folder, bytes, code);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.value, 0);
  if (memory == MAP_FAILED) fail_spill(folder, bytes, errno);
  return static_cast<float*>(memory);
}

float* map_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(ErrorKind::kOutOfMemory,
         "hidden states: no memory for {} bytes; give fewer tokens or a spill folder", bytes);
  }
  return static_cast<float*>(memory);
}

}  // namespace

HiddenStates::HiddenStates(std::int64_t tokens, std::int64_t hidden,
                           const std::optional<std::filesystem::path>& spill_folder)
    : tokens_(tokens), hidden_(hidden) {
  std::uint64_t bytes = 0;
  if (mul_overflows(static_cast<std::uint64_t>(tokens) * sizeof(float),
                    static_cast<std::uint64_t>(hidden), &bytes)) {
    fail(ErrorKind::kRefused,
         "hidden states of {} tokens do not fit into memory; give fewer tokens", tokens);
  }
  if (bytes == 0) return;
  mapped_bytes_ = static_cast<std::size_t>(bytes);
  in_file_ = spill_folder.has_value();
  data_ = spill_folder ? map_file(*spill_folder, mapped_bytes_) : map_memory(mapped_bytes_);
}

HiddenStates::~HiddenStates() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

HiddenStates::HiddenStates(HiddenStates&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      tokens_(std::exchange(other.tokens_, 0)),
      hidden_(other.hidden_),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      in_file_(other.in_file_) {}

HiddenStates& HiddenStates::operator=(HiddenStates&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(tokens_, other.tokens_);
  std::swap(hidden_, other.hidden_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(in_file_, other.in_file_);
  return *this;
}

void HiddenStates::release(std::int64_t first, std::int64_t count) const noexcept {
  if (!in_file_ || count <= 0) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto row_bytes = static_cast<std::size_t>(hidden_) * sizeof(float);
  const std::size_t begin = static_cast<std::size_t>(first) * row_bytes / page * page;
  const std::size_t end = static_cast<std::size_t>(first + count) * row_bytes;
  // Shared pages of a file: what was written stays in the file.
  ::madvise(reinterpret_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

MatrixView<float> HiddenStates::view() const { return {data_, tokens_, hidden_}; }

}  // namespace cortiq::model
