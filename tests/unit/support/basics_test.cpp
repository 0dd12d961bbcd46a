// Errors, byte access, checked arithmetic, processor names, interrupt, memory figures, views.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "cortiq/support/bytes.hpp"
#include "cortiq/support/cpu.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/interrupt.hpp"
#include "cortiq/support/log.hpp"
#include "cortiq/support/memory.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq {
namespace {

TEST(Errors, FailFormatsItsMessageAndKeepsTheKind) {
  try {
    fail(ErrorKind::kNumeric, "{}: value {}", "here", 7);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_STREQ(error.what(), "here: value 7");
  }
}

TEST(Errors, ContextGoesInFrontAndKeepsTheKind) {
  try {
    with_context("outer",
                 [] { with_context("inner", [] { fail(ErrorKind::kRefused, "too {}", "big"); }); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRefused);
    EXPECT_STREQ(error.what(), "outer: inner: too big");
  }
}

TEST(Errors, ContextPassesResultsAndForeignExceptions) {
  EXPECT_EQ(with_context("x", [] { return 42; }), 42);
  int target = 0;
  with_context("x", [&]() -> int& { return target; }) = 5;
  EXPECT_EQ(target, 5);
  EXPECT_THROW(with_context("x", [] { throw std::logic_error("bug"); }), std::logic_error);
}

TEST(ErrorsDeathTest, AssertionNamesTheExpression) {
  EXPECT_DEATH(CORTIQ_ASSERT(1 + 1 == 3), "assertion failed: 1 \\+ 1 == 3");
}

TEST(Bytes, LoadAndStoreAreLittleEndianAtAnyAddress) {
  std::array<std::uint8_t, 9> raw{0xFF, 0x01, 0x02, 0x03, 0x04, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(load_le<std::uint32_t>(raw.data() + 1), 0x04030201U);
  store_le<std::uint16_t>(raw.data() + 3, 0xABCD);
  EXPECT_EQ(raw[3], 0xCD);
  EXPECT_EQ(raw[4], 0xAB);
  store_le(raw.data() + 1, -0.5F);
  EXPECT_EQ(load_le<float>(raw.data() + 1), -0.5F);
}

TEST(Bytes, CheckedCastKeepsValuesThatFit) {
  EXPECT_EQ(checked_cast<std::uint8_t>(255), 255);
  EXPECT_EQ(checked_cast<std::int32_t>(std::uint64_t{2147483647}), 2147483647);
  EXPECT_EQ(checked_cast<std::int8_t>(-128), -128);
}

TEST(BytesDeathTest, CheckedCastRefusesValuesThatDoNotFit) {
  EXPECT_DEATH((void)checked_cast<std::uint8_t>(256), "assertion failed");
  EXPECT_DEATH((void)checked_cast<std::uint64_t>(-1), "assertion failed");
  EXPECT_DEATH((void)checked_cast<std::int64_t>(~std::uint64_t{0}), "assertion failed");
}

TEST(Bytes, OverflowOfSizesIsSeen) {
  std::uint64_t out = 0;
  EXPECT_FALSE(mul_overflows(1ULL << 32, (1ULL << 32) - 1, &out));
  EXPECT_EQ(out, 0xFFFFFFFF00000000ULL);
  EXPECT_TRUE(mul_overflows(1ULL << 32, 1ULL << 32, &out));
  EXPECT_FALSE(add_overflows(~0ULL - 1, 1, &out));
  EXPECT_EQ(out, ~0ULL);
  EXPECT_TRUE(add_overflows(~0ULL, 1, &out));
}

TEST(Cpu, NamesParseBack) {
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    EXPECT_EQ(try_parse_simd(simd_name(level)), level);
  }
  EXPECT_EQ(try_parse_simd("sse9"), std::nullopt);
  EXPECT_EQ(try_parse_simd(""), std::nullopt);
  EXPECT_EQ(try_parse_simd("AVX2"), std::nullopt);
}

TEST(Interrupt, CheckThrowsOnlyAfterARequest) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.requested());
  EXPECT_NO_THROW(interrupt.check());
  interrupt.request();
  EXPECT_TRUE(interrupt.requested());
  try {
    interrupt.check();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInterrupted);
  }
}

TEST(Memory, FiguresAreOrdered) {
  const auto available = available_memory_bytes();
  const auto total = total_memory_bytes();
  ASSERT_TRUE(available && total);
  EXPECT_GT(*available, 0U);
  EXPECT_LE(*available, *total);
}

TEST(Memory, PeakGrowsWithTouchedMemory) {
  const std::uint64_t before = peak_resident_bytes();
  EXPECT_GT(before, 1U << 20);
  const std::vector<char> touched(before + (std::size_t{64} << 20), 1);
  EXPECT_GE(peak_resident_bytes(), before + (std::uint64_t{32} << 20)) << touched[0];
}

TEST(Memory, CpuSecondsRiseWithWork) {
  const double before = process_cpu_seconds();
  volatile double sink = 1;
  while (process_cpu_seconds() < before + 0.01) {
    for (int i = 0; i < 10000; ++i) sink = sink * 1.0000001;
  }
  EXPECT_GT(process_cpu_seconds(), before);
}

TEST(View, BlocksKeepTheStrideOfTheWhole) {
  std::array<int, 12> cells{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const MatrixView<int> whole(cells.data(), 3, 4);
  const MatrixView<int> block = whole.block(1, 2, 2, 2);
  EXPECT_EQ(block(0, 0), 6);
  EXPECT_EQ(block(1, 1), 11);
  EXPECT_EQ(block.stride(), 4);
  const ConstMatrixView<int> constant = block;
  EXPECT_EQ(*constant.row(1), 10);
}

TEST(Log, FormatsItsMessages) {
  MemoryLog log;
  log.warn("{} of {}", 1, 2);
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_EQ(log.lines[0].first, LogLevel::kWarning);
  EXPECT_EQ(log.lines[0].second, "1 of 2");
}

}  // namespace
}  // namespace cortiq
