#include "json_text.hpp"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

/// Buffered bytes of a file, shared by the copies of one iterator.
struct ByteStream {
  const ReadFile& file;
  std::uint64_t offset;
  std::vector<std::byte> piece = std::vector<std::byte>(std::size_t{1} << 18);
  std::size_t used = 0;
  std::size_t filled = 0;
  std::int64_t line = 1;

  bool at_end() {
    if (used < filled) return false;
    filled = file.read_some(offset, piece);
    offset += filled;
    used = 0;
    return filled == 0;
  }
  [[nodiscard]] char current() const { return static_cast<char>(piece[used]); }
  void advance() {
    if (current() == '\n') ++line;
    ++used;
  }
};

/// Input iterator over a ByteStream; a null stream is the end.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  ByteIterator() = default;
  explicit ByteIterator(ByteStream* stream) : stream_(stream) {}
  char operator*() const { return stream_->current(); }
  ByteIterator& operator++() {
    stream_->advance();
    return *this;
  }
  ByteIterator operator++(int) {
    ByteIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const ByteIterator& a, const ByteIterator& b) {
    return a.ended() == b.ended();
  }
  friend bool operator!=(const ByteIterator& a, const ByteIterator& b) { return !(a == b); }

 private:
  [[nodiscard]] bool ended() const { return stream_ == nullptr || stream_->at_end(); }
  ByteStream* stream_ = nullptr;
};

/// Receives the parser's events. depth_ 1 = inside the top array, 2 = inside one of its items.
class TextCollector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TextCollector(Text& result, std::uint64_t budget) : result_(result), budget_(budget) {}

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool key(string_t&) override { return true; }
  bool string(string_t& value) override {
    const bool wanted = depth_ == 1 || (depth_ == 2 && item_is_array_);
    if (!top_is_array_ || !wanted) return scalar();
    if (!full_) result_.text.append(value).push_back('\n');
    gave_text_ = true;
    if (depth_ == 1) end_item();
    return true;
  }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    message = error.what();
    return false;
  }
  std::string message;

 private:
  bool scalar() {
    if (depth_ == 0 || (depth_ == 1 && top_is_array_)) end_item();
    return true;
  }
  bool open(bool array) {
    if (depth_ == 0) top_is_array_ = array;
    if (depth_ == 1) item_is_array_ = array;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == (top_is_array_ ? 1 : 0)) end_item();
    return true;
  }
  void end_item() {
    ++item_;
    if (!gave_text_ && !full_) result_.skipped.add(item_);
    gave_text_ = false;
    if (result_.text.size() >= budget_) full_ = true;
  }

  Text& result_;
  std::uint64_t budget_;
  std::int64_t depth_ = 0;
  std::int64_t item_ = 0;
  bool top_is_array_ = false;
  bool item_is_array_ = false;
  bool gave_text_ = false;
  bool full_ = false;
};

/// The library's message without its own name and number.
std::string_view parse_reason(std::string_view message) {
  const std::size_t colon = message.find(": ");
  return colon == std::string_view::npos ? message : message.substr(colon + 2);
}

}  // namespace

Text read_json_array(const ReadFile& file, std::uint64_t begin, std::uint64_t budget_bytes) {
  Text result;
  ByteStream stream{file, begin};
  TextCollector collector(result, budget_bytes);
  if (!nlohmann::json::sax_parse(ByteIterator(&stream), ByteIterator(), &collector)) {
    fail(ErrorKind::kInput, "{}: line {}: is no valid JSON: {}; mend it, or use .jsonl or .txt",
         file.path().string(), stream.line, parse_reason(collector.message));
  }
  result.exhausted = result.text.size() < budget_bytes;
  return result;
}

}  // namespace cortiq::calib
