#include "cortiq/hf/safetensors.hpp"

#include <gtest/gtest.h>

#include "tiny_folder.hpp"

namespace cortiq::hf {
namespace {

using test::safetensors_bytes;

std::vector<SafetensorsEntry> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "w.safetensors");
}

/// The message of the refusal, "" if there is none.
std::string refusal(const std::string& file) {
  try {
    static_cast<void>(parse(file));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(Safetensors, keeps_the_order_of_the_header_and_reports_spans) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"odd":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[16,18]}})";
  const auto entries = parse(safetensors_bytes(header, std::string(18, 'x')));
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_EQ(entries[0].type, SourceType::kF16);
  EXPECT_EQ(entries[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(entries[0].offset, 8 + header.size() + 4);
  EXPECT_EQ(entries[0].nbytes, 12U);
  EXPECT_EQ(entries[1].name, "a");
  EXPECT_TRUE(entries[1].shape.empty());
  EXPECT_FALSE(entries[2].type.has_value());
  EXPECT_EQ(entries[2].dtype, "F8_E4M3");
}

TEST(Safetensors, accepts_a_file_without_tensors) {
  EXPECT_TRUE(parse(safetensors_bytes("{}", "")).empty());
}

TEST(Safetensors, refuses_each_kind_of_damage_by_name) {
  struct Case {
    const char* header;
    const char* expected;
  };
  const Case cases[] = {
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
       "t occurs twice"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
       "tensor t: has 4 bytes, but 2 F32 elements need 8"},
      {R"({"t":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})", "cut short"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "backwards"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       "t and u overlap"},
      {R"({"t":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "negative"},
      {R"({"t":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "not an integer"},
      {R"({"t":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "list inside a list"},
      {R"({"t":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", "other than numbers"},
      {R"({"t":{"dtype":"F32","shape":[{}],"data_offsets":[0,8]}})", "object where numbers"},
      {R"({"t":{"shape":[2],"data_offsets":[0,8]}})", "missing in the header"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", "not a pair"},
      {R"({"t":5})", "t is not an object"},
      {R"({"t":[1]})", "t is not an object"},
      {R"([1])", "not an object"},
      {R"(7)", "not an object"},
      {R"({"t":)", "not valid JSON"},
      {R"({"t":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})",
       "overflows"},
  };
  for (const Case& c : cases) {
    const std::string message = refusal(safetensors_bytes(c.header, std::string(16, 'x')));
    EXPECT_NE(message.find(c.expected), std::string::npos) << c.header << "\n" << message;
    EXPECT_NE(message.find("w.safetensors"), std::string::npos);
    EXPECT_NE(message.find("download it again"), std::string::npos);
  }
}

TEST(Safetensors, refuses_a_header_longer_than_the_file_and_a_huge_one) {
  std::string file = safetensors_bytes("{}", "");
  EXPECT_NE(refusal(file.substr(0, 7)), "");
  EXPECT_NE(refusal(file.substr(0, 9)).find("claims 2 bytes"), std::string::npos);
  const std::uint64_t huge = ~std::uint64_t{0} - 3;
  std::memcpy(file.data(), &huge, 8);
  EXPECT_NE(refusal(file).find("Git LFS"), std::string::npos);
}

TEST(Safetensors, refuses_truncation_at_every_byte) {
  const std::string file = test::tiny_weights().bytes();
  ASSERT_EQ(parse(file).size(), 4U);
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(refusal(file.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace cortiq::hf
