#include "cortiq/hf/safetensors.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace cortiq::hf {
namespace {

using SaxJson = nlohmann::json;

/// Limit of the safetensors format itself.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
/// More dimensions than any container of ours can hold; guards the parser's memory.
constexpr std::size_t kMaxRank = 16;

struct NamedType {
  std::string_view name;
  std::int64_t bits;
  std::optional<SourceType> type;
};
constexpr std::array<NamedType, 18> kTypes{{{"F64", 64, std::nullopt},
                                            {"F32", 32, SourceType::kF32},
                                            {"F16", 16, SourceType::kF16},
                                            {"BF16", 16, SourceType::kBf16},
                                            {"I64", 64, SourceType::kI64},
                                            {"I32", 32, SourceType::kI32},
                                            {"U64", 64, std::nullopt},
                                            {"U32", 32, std::nullopt},
                                            {"I16", 16, std::nullopt},
                                            {"U16", 16, std::nullopt},
                                            {"I8", 8, std::nullopt},
                                            {"U8", 8, std::nullopt},
                                            {"BOOL", 8, std::nullopt},
                                            {"F8_E4M3", 8, std::nullopt},
                                            {"F8_E5M2", 8, std::nullopt},
                                            {"F8_E8M0", 8, std::nullopt},
                                            {"F4", 4, std::nullopt},
                                            {"C64", 64, std::nullopt}}};

const NamedType* find_type(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const NamedType& t) { return t.name == name; });
  return found == kTypes.end() ? nullptr : &*found;
}

struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

/// Receives parser events, so that a large header costs linear time and keeps its order.
class HeaderEvents final : public nlohmann::json_sax<SaxJson> {
 public:
  std::vector<RawEntry> entries;
  std::string problem;  ///< why an event was refused

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(std::int64_t) override {
    return list_ != nullptr ? refuse("has a negative number") : scalar();
  }
  bool number_float(double, const std::string&) override {
    return list_ != nullptr ? refuse("has a number that is not an integer") : scalar();
  }
  bool binary(SaxJson::binary_t&) override { return refuse("is not JSON"); }
  bool number_unsigned(std::uint64_t value) override {
    if (list_ == nullptr) return scalar();
    if (list_->size() >= kMaxRank) return refuse("has too many dimensions");
    list_->push_back(value);
    return true;
  }
  bool string(std::string& value) override {
    if (!in_entry() || key_ != "dtype") return scalar();
    entries.back().dtype = value;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ > kMaxDepth) return refuse("is nested too deeply");
    if (depth_ == 2 && !metadata_) entries.push_back({key_, {}, {}, {}});
    return list_ == nullptr || refuse("has an object where numbers are expected");
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1) metadata_ = false;
    return true;
  }
  bool key(std::string& value) override {
    key_ = value;
    if (depth_ != 1) return true;
    metadata_ = value == "__metadata__";
    return names_.insert(value).second || refuse("occurs twice");
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 1) return refuse_top("is an array, not an object");
    if (depth_ > kMaxDepth) return refuse("is nested too deeply");
    if (list_ != nullptr) return refuse("has a list inside a list");
    if (depth_ != 3 || metadata_ || entries.empty())
      return depth_ != 2 || refuse("is not an object");
    if (key_ == "shape") list_ = &entries.back().shape.emplace();
    if (key_ == "data_offsets") list_ = &entries.back().offsets.emplace();
    return true;
  }
  bool end_array() override {
    --depth_;
    list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    problem = fmt::format("header is not valid JSON at byte {}", position);
    return false;
  }

 private:
  static constexpr int kMaxDepth = 32;
  [[nodiscard]] bool in_entry() const { return depth_ == 2 && !metadata_; }
  bool refuse_top(std::string_view why) {
    problem = fmt::format("header {}", why);
    return false;
  }
  bool refuse(std::string_view why) {
    const std::string& name = depth_ >= 2 && !entries.empty() ? entries.back().name : key_;
    problem = fmt::format("header entry {} {}", name, why);
    return false;
  }
  bool scalar() {
    if (depth_ == 0) return refuse_top("is not an object");
    if (depth_ == 1) return refuse("is not an object");
    return list_ == nullptr || refuse("has something other than numbers in a list");
  }

  int depth_ = 0;
  bool metadata_ = false;
  std::string key_;
  std::vector<std::uint64_t>* list_ = nullptr;
  std::unordered_set<std::string> names_;
};

SafetensorsEntry check_entry(RawEntry raw, std::uint64_t data_begin, std::uint64_t file_bytes,
                             std::string_view where) {
  const auto damaged = [&](std::string_view why) {
    fail(ErrorKind::kInput, "{}: tensor {}: {}; the file is damaged, download it again", where,
         raw.name, why);
  };
  if (!raw.dtype || !raw.shape || !raw.offsets)
    damaged("dtype, shape or data_offsets is missing in the header");
  if (raw.offsets->size() != 2) damaged("data_offsets is not a pair");
  const std::uint64_t begin = (*raw.offsets)[0];
  const std::uint64_t end = (*raw.offsets)[1];
  if (begin > end) damaged(fmt::format("data_offsets [{}, {}] run backwards", begin, end));
  if (end > file_bytes - data_begin) {
    damaged(fmt::format("its data end at byte {} + {}, but the file has only {} bytes (cut short?)",
                        data_begin, end, file_bytes));
  }
  std::uint64_t elements = 1;
  SafetensorsEntry entry;
  for (const std::uint64_t dim : *raw.shape) {
    if (dim > (std::uint64_t{1} << 62) || mul_overflows(elements, dim, &elements))
      damaged("its shape overflows");
    entry.shape.push_back(static_cast<std::int64_t>(dim));
  }
  if (elements > (std::uint64_t{1} << 56)) damaged("its shape overflows");
  const NamedType* type = find_type(*raw.dtype);
  if (type != nullptr) {
    const std::uint64_t expected = (elements * static_cast<std::uint64_t>(type->bits) + 7) / 8;
    if (expected != end - begin) {
      damaged(fmt::format("has {} bytes, but {} {} elements need {}", end - begin, elements,
                          *raw.dtype, expected));
    }
    entry.type = type->type;
  }
  entry.name = std::move(raw.name);
  entry.dtype = std::move(*raw.dtype);
  entry.offset = data_begin + begin;
  entry.nbytes = end - begin;
  return entry;
}

void check_no_overlap(const std::vector<SafetensorsEntry>& entries, std::string_view where) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.nbytes > 0) order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->nbytes > order[i]->offset) {
      fail(ErrorKind::kInput,
           "{}: tensors {} and {} overlap; the file is damaged, download it again", where,
           order[i - 1]->name, order[i]->name);
    }
  }
}

}  // namespace

std::int64_t source_type_bytes(SourceType type) noexcept {
  switch (type) {
    case SourceType::kF16:
    case SourceType::kBf16:
      return 2;
    case SourceType::kF32:
    case SourceType::kI32:
      return 4;
    case SourceType::kI64:
      return 8;
  }
  return 0;
}

std::vector<SafetensorsEntry> parse_safetensors(ByteSpan file, std::string_view where) {
  if (file.size() < 8) {
    fail(ErrorKind::kInput, "{}: has {} bytes, too few for a safetensors file; download it again",
         where, file.size());
  }
  const auto header_bytes = load_le<std::uint64_t>(file.data());
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - 8) {
    fail(ErrorKind::kInput,
         "{}: its header claims {} bytes, but the file has {}; it is cut short or no safetensors "
         "file (a Git LFS "
         "pointer?), download it again",
         where, header_bytes, file.size());
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + 8;
  HeaderEvents events;
  if (!SaxJson::sax_parse(text, text + header_bytes, &events)) {
    fail(ErrorKind::kInput, "{}: {}; the file is damaged, download it again", where,
         events.problem);
  }
  std::vector<SafetensorsEntry> entries;
  entries.reserve(events.entries.size());
  for (RawEntry& raw : events.entries) {
    entries.push_back(check_entry(std::move(raw), 8 + header_bytes, file.size(), where));
  }
  check_no_overlap(entries, where);
  return entries;
}

}  // namespace cortiq::hf
