// Tables inside variable-size payloads are checked when a file is opened (cmf.md section 4).
#include <gtest/gtest.h>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

using test::le;

/// "" if a file with this tensor opens, else the message.
std::string verdict(std::uint8_t dtype, std::vector<std::uint32_t> shape,
                    const std::string& payload) {
  const auto path = cortiq::test::scratch_dir("cmf_tables") / "m.cmf";
  test::RawFile raw;
  raw.tensors.push_back({"t", dtype, std::move(shape), payload});
  test::write_bytes(path, raw.build());
  try {
    (void)Reader::open(path);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
}

void expect_refused(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << (message.empty() ? "accepted" : message);
}

std::string u16(std::uint16_t v) { return le(v); }
std::string u32(std::uint32_t v) { return le(v); }
std::string zeros(std::size_t n) { return std::string(n, '\0'); }

TEST(PayloadTables, VbitSizeFollowsFromTheWidths) {
  // Two rows of 32: 3 bits = 12 bytes, 5 bits = 20 bytes; one scale each.
  const std::string head = std::string("\x03\x05", 2) + zeros(4);
  EXPECT_EQ(verdict(8, {2, 32}, head + zeros(32)), "");
  expect_refused(verdict(8, {2, 32}, head + zeros(31)), "need 38 bytes, it has 37");
  expect_refused(verdict(8, {2, 32}, head + zeros(33)), "need 38 bytes, it has 39");
  expect_refused(verdict(8, {2, 32}, std::string("\x03\x07", 2) + zeros(60)), "row 1 has 7 bits");
  expect_refused(verdict(8, {2, 33}, head + zeros(32)), "multiple of 32");
  expect_refused(verdict(8, {64}, head + zeros(32)), "shape must be [rows, columns]");
  expect_refused(verdict(8, {4000000000U, 32}, head), "tables need");
  expect_refused(verdict(8, {1, 4294967264U}, head), "tables need");
  EXPECT_EQ(verdict(8, {0, 32}, ""), "");
}

TEST(PayloadTables, VbitRowOffsetsMustFit) {
  const std::string head = std::string("\x04\x08", 2) + zeros(4);
  EXPECT_EQ(verdict(10, {2, 32}, head + u32(0) + u32(16) + u32(48) + zeros(48)), "");
  expect_refused(verdict(10, {2, 32}, head + u32(1) + u32(16) + u32(48) + zeros(48)),
                 "row offset 0 is not 0");
  expect_refused(verdict(10, {2, 32}, head + u32(0) + u32(17) + u32(48) + zeros(48)),
                 "row offset 1 is 17, must be 16");
  expect_refused(verdict(10, {2, 32}, head + u32(0) + u32(16) + u32(48) + zeros(47)),
                 "tables need");
  expect_refused(verdict(10, {2, 32}, head), "tables need");
}

TEST(PayloadTables, Q1sOutliersMustNameElements) {
  const std::string base = zeros(12);  // 64 elements
  EXPECT_EQ(verdict(13, {2, 32}, base + u32(0)), "");
  EXPECT_EQ(verdict(13, {2, 32}, base + u32(2) + u32(0) + u16(1) + u32(63) + u16(2)), "");
  expect_refused(verdict(13, {2, 32}, base + u32(1) + u32(64) + u16(1)),
                 "outlier 0 names element 64 of 64");
  expect_refused(verdict(13, {2, 32}, base + u32(2) + u32(0) + u16(1)), "need 28 bytes, it has 22");
  expect_refused(verdict(13, {2, 32}, base + u32(0) + zeros(6)), "need 16 bytes, it has 22");
  expect_refused(verdict(13, {2, 32}, base), "need 16 bytes, it has 12");
  expect_refused(verdict(13, {2, 32}, base + u32(0xFFFFFFFF)), "tables need");
  expect_refused(verdict(13, {33}, base + u32(0)), "multiple of 32");
}

TEST(PayloadTables, Q1tRowPointersMustGrowAndColumnsExist) {
  const std::string base = zeros(18);  // 2 rows of 32
  const auto payload = [&base](std::uint32_t a, std::uint32_t b, std::uint32_t c,
                               const std::string& entries) {
    return base + u32(a) + u32(b) + u32(c) + entries;
  };
  const std::string two = u16(0) + u16(9) + u16(31) + u16(9);
  EXPECT_EQ(verdict(14, {2, 32}, payload(0, 0, 0, "")), "");
  EXPECT_EQ(verdict(14, {2, 32}, payload(0, 1, 2, two)), "");
  expect_refused(verdict(14, {2, 32}, payload(1, 1, 2, two)), "row pointer 0 is 1");
  expect_refused(verdict(14, {2, 32}, payload(0, 3, 2, two)),
                 "row pointer 2 is 2, below the one before (3)");
  expect_refused(verdict(14, {2, 32}, payload(0, 1, 3, two)), "tables need");
  expect_refused(verdict(14, {2, 32}, payload(0, 1, 0xFFFFFFFF, two)), "tables need");
  expect_refused(verdict(14, {2, 32}, payload(0, 0, 1, u16(32) + u16(9))),
                 "outlier 0 names column 32 of 32");
  expect_refused(verdict(14, {64}, payload(0, 0, 0, "")), "shape must be [rows, columns]");
  expect_refused(verdict(14, {2, 32}, base), "tables need");
}

}  // namespace
}  // namespace cortiq::cmf
