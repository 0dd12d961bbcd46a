#include "cortiq/cmf/writer.hpp"

#include <algorithm>
#include <array>

#include "cortiq/cmf/features.hpp"
#include "cortiq/cmf/hash64.hpp"
#include "cortiq/support/file.hpp"
#include "header_schema.hpp"
#include "placement.hpp"

namespace cortiq::cmf {
namespace {

/// How an unfinished file begins; finish() puts the envelope over it.
constexpr std::string_view kPartialMark = "unfinished file of cortiq-quant\n";
static_assert(kPartialMark.size() < kEnvelopeBytes);

/// A header that a reader would refuse must be found before the work, not after it.
std::string checked_dump(const Header& header, std::string_view where) {
  check_header(header.json(), where);
  return with_context(where, [&header] { return header.dump(); });
}

/// Bytes in front of the directory that are kept for the header.
std::uint64_t header_room(const Header& header, const WriterSections& sections,
                          std::string_view where, std::uint64_t slack_bytes) {
  const Header planned = final_header(header, sections, hash_sections(sections));
  return checked_dump(planned, where).size() + slack_bytes;
}

void check_free_space(const std::filesystem::path& path, std::uint64_t needed) {
  const std::optional<std::uint64_t> available = free_space_bytes(path);
  if (!available || *available >= needed) return;
  fail(ErrorKind::kRefused,
       "{}: not enough space: the file needs {} bytes, {} are free in its folder; free some space "
       "or choose another "
       "output",
       path.string(), needed, *available);
}

}  // namespace

struct Writer::State {
  State(std::filesystem::path path, std::vector<PlannedTensor> planned, const WriterSections& given,
        AtomicFile::Naming naming)
      : tensors(std::move(planned)),
        sections(given),
        section_hashes(hash_sections(given)),
        hashes(tensors.size(), 0),
        written(tensors.size(), 0),
        file(std::move(path), naming, kPartialMark) {}

  [[nodiscard]] std::string where() const { return file.final_path().string(); }
  /// Zeros at [begin, end).
  void clear(std::uint64_t begin, std::uint64_t end);
  /// What no hash covers, in a file that lay about: as a new writer leaves it.
  void clear_all_but_payloads();

  std::vector<PlannedTensor> tensors;
  WriterSections sections;
  SectionHashes section_hashes;
  Placement placement;
  std::vector<std::uint64_t> hashes;  ///< entry i belongs to the thread that writes tensor i
  std::vector<char> written;  ///< not vector<bool>: entries are written from several threads
  AtomicFile file;
};

void Writer::State::clear(std::uint64_t begin, std::uint64_t end) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  for (std::uint64_t size = 0; begin < end; begin += size) {
    size = std::min<std::uint64_t>(kZeros.size(), end - begin);
    file.write_at(begin, ByteSpan(kZeros).first(static_cast<std::size_t>(size)));
  }
}

void Writer::State::clear_all_but_payloads() {
  std::uint64_t cursor = kEnvelopeBytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t begin = placement.data_offset + placement.payload_offsets[i];
    clear(cursor, begin);
    cursor = begin + tensors[i].nbytes;
  }
  clear(cursor, placement.end);  // finish() writes the sections
}

Writer::Writer(std::filesystem::path path, const Header& header, std::vector<PlannedTensor> tensors,
               const WriterSections& sections, std::uint64_t header_slack_bytes) {
  // Everything that can be wrong with the plan shows before a file is created.
  const std::string where = path.string();
  const std::uint64_t room = header_room(header, sections, where, header_slack_bytes);
  Placement placement = place(tensors, sections, room, where);
  state_ = std::make_unique<State>(std::move(path), std::move(tensors), sections,
                                   AtomicFile::Naming::kPartial);
  State& s = *state_;
  s.placement = std::move(placement);
  check_free_space(s.file.final_path(), s.placement.end);
  s.file.reserve(s.placement.end);
  // Where nothing could be reserved the last byte gives the file its size; gaps read as zero either
  // way.
  const std::array<std::byte, 1> zero{};
  s.file.write_at(s.placement.end - 1, zero);
}

void Writer::check_partial(const std::filesystem::path& path) {
  AtomicFile::check_partial(path, kPartialMark);
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::~Writer() = default;

std::unique_ptr<Writer> Writer::reopen(std::filesystem::path path, const Header& header,
                                       std::vector<PlannedTensor> tensors,
                                       const WriterSections& sections) {
  const std::string where = path.string();
  const std::uint64_t room = header_room(header, sections, where, kDefaultHeaderSlackBytes);
  Placement placement = place(tensors, sections, room, where);
  auto state = std::make_unique<State>(std::move(path), std::move(tensors), sections,
                                       AtomicFile::Naming::kKept);
  state->placement = std::move(placement);
  // A kill may have come before the whole size was reserved.
  if (state->file.size() < state->placement.end) {
    check_free_space(state->file.final_path(), state->placement.end - state->file.size());
    state->file.reserve(state->placement.end);
    const std::array<std::byte, 1> zero{};
    if (state->file.size() < state->placement.end)
      state->file.write_at(state->placement.end - 1, zero);
  }
  state->file.resize(state->placement.end);
  state->clear_all_but_payloads();
  return std::unique_ptr<Writer>(new Writer(std::move(state)));
}

std::uint64_t Writer::planned_bytes() const noexcept { return state_->placement.end; }
const std::vector<PlannedTensor>& Writer::tensors() const noexcept { return state_->tensors; }
void Writer::keep_partial() noexcept { state_->file.keep_partial(); }

void Writer::write_tensor(std::size_t index, ByteSpan payload) {
  State& s = *state_;
  CORTIQ_ASSERT(index < s.tensors.size());
  CORTIQ_ASSERT(payload.size() == s.tensors[index].nbytes);
  s.file.write_at(s.placement.data_offset + s.placement.payload_offsets[index], payload);
  s.hashes[index] = hash64(payload);
  s.written[index] = 1;
}

bool Writer::is_written(std::size_t index) const { return state_->written[index] != 0; }
std::uint64_t Writer::payload_hash(std::size_t index) const { return state_->hashes[index]; }
void Writer::sync() { state_->file.sync(); }

bool Writer::holds_tensor(std::size_t index, std::uint64_t hash) const {
  const State& s = *state_;
  std::vector<std::byte> payload(static_cast<std::size_t>(s.tensors[index].nbytes));
  s.file.read_at(s.placement.data_offset + s.placement.payload_offsets[index], payload);
  return hash64(payload) == hash;
}

void Writer::adopt_tensor(std::size_t index, std::uint64_t hash) {
  state_->hashes[index] = hash;
  state_->written[index] = 1;
}

std::vector<std::byte> Writer::read_back(std::size_t index) const {
  const State& s = *state_;
  CORTIQ_ASSERT(is_written(index));
  std::vector<std::byte> payload(static_cast<std::size_t>(s.tensors[index].nbytes));
  s.file.read_at(s.placement.data_offset + s.placement.payload_offsets[index], payload);
  return payload;
}

std::uint64_t Writer::finish(Header header) {
  State& s = *state_;
  const auto missing = std::find(s.written.begin(), s.written.end(), char{0});
  CORTIQ_ASSERT(missing == s.written.end());
  const Header final = final_header(std::move(header), s.sections, s.section_hashes);
  const std::string text = checked_dump(final, s.where());
  const std::vector<std::byte> directory = make_directory(s.tensors, s.placement, s.hashes);
  const ByteSpan header_bytes = std::as_bytes(std::span(text));

  Envelope envelope;
  std::vector<DType> dtypes;
  for (const PlannedTensor& tensor : s.tensors) dtypes.push_back(tensor.dtype);
  envelope.required_features = derive_features(final, dtypes, !s.sections.masks.empty());
  const bool in_front = text.size() <= s.placement.header_room;
  envelope.header = {in_front ? kEnvelopeBytes : s.placement.end, text.size()};
  envelope.directory = {in_front ? kEnvelopeBytes + text.size() : kEnvelopeBytes, directory.size()};
  envelope.data = {s.placement.data_offset, s.placement.data_bytes};
  envelope.masks = s.placement.masks;
  envelope.vocab = s.placement.vocab;
  envelope.index = s.placement.index;
  envelope.header_hash = hash64(header_bytes);
  envelope.directory_hash = hash64(directory);

  s.file.write_at(0, make_envelope(envelope));
  s.file.write_at(envelope.header.offset, header_bytes);
  s.file.write_at(envelope.directory.offset, directory);
  s.file.write_at(envelope.masks.offset, s.sections.masks);
  s.file.write_at(envelope.vocab.offset, s.sections.vocab);
  s.file.write_at(envelope.index.offset, s.sections.mask_index);
  s.file.commit();
  return in_front ? s.placement.end : s.placement.end + text.size();
}

std::uint64_t plan_file_bytes(const Header& header, const std::vector<PlannedTensor>& tensors,
                              const WriterSections& sections) {
  const Header planned =
      final_header(header, sections, SectionHashes{});  // hashes have a fixed width
  return place(tensors, sections, planned.dump().size() + kDefaultHeaderSlackBytes, "plan").end;
}

}  // namespace cortiq::cmf
