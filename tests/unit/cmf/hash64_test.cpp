#include "cortiq/cmf/hash64.hpp"

#include <gtest/gtest.h>

#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

std::uint64_t hash_of(std::string_view text) { return hash64(std::as_bytes(std::span(text))); }

TEST(Hash64, GivesTheVectorsOfTheSpecification) {
  EXPECT_EQ(hash_of(""), 0x0000000000000000ULL);
  EXPECT_EQ(hash_of("a"), 0x247f1eaecb8be39aULL);
  EXPECT_EQ(hash_of("abcdefgh"), 0x47da24881d1e74a9ULL);
  EXPECT_EQ(hash_of("abcdefghi"), 0x0a845f71003c71e6ULL);
  std::string ramp;
  for (int i = 0; i < 32; ++i) ramp.push_back(static_cast<char>(i));
  EXPECT_EQ(hash_of(ramp), 0x12aaed746e9163d9ULL);
}

TEST(Hash64, EqualsThePlainLoopForEveryLengthAndAlignment) {
  const std::string bytes = test::noise(400, 7);
  for (std::size_t start = 0; start < 9; ++start) {
    for (std::size_t length = 0; length + start <= 200; ++length) {
      const std::string_view part = std::string_view(bytes).substr(start, length);
      ASSERT_EQ(hash_of(part), test::naive_hash64(part)) << start << " " << length;
    }
  }
}

}  // namespace
}  // namespace cortiq::cmf
