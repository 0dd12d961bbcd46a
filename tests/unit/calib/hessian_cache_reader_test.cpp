#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "cache_files.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using test::CacheBytes;
using test::random_hessian;
using test::write_bytes;
using test::write_cache;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

fs::path new_path(const std::string& name) { return test::scratch_dir("cache-" + name) / "a.hess"; }

/// Writes the bytes and returns the message of the error that opening gives.
std::string open_error(const std::string& bytes, ErrorKind kind = ErrorKind::kInput) {
  const fs::path path = new_path("bad");
  write_bytes(path, bytes);
  try {
    (void)HessianCache::open(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was opened";
  return "";
}

void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// A file with one entry "t" of these columns and element count, and `numbers` doubles of 1.
std::string one_entry(std::uint64_t cols, std::uint64_t elements, std::size_t numbers) {
  CacheBytes file;
  file.header(1).entry("t", cols, 9, elements);
  for (std::size_t i = 0; i < numbers; ++i) file.put(1.0);
  return file.bytes;
}

TEST(HessianCache, round_trip_is_exact_in_any_order_of_reading) {
  const fs::path path = new_path("round");
  const std::vector<test::CacheItem> items = {{{"a", "b"}, random_hessian(17, 1)},
                                              {{"c"}, random_hessian(64, 2)},
                                              {{"d"}, random_hessian(1, 3)}};
  write_cache(path, items);
  const HessianCache cache = HessianCache::open(path);
  ASSERT_EQ(cache.entries().size(), 3U);
  EXPECT_EQ(cache.entries()[0].names, items[0].names);
  for (const std::size_t e : {2U, 0U, 1U, 0U}) {
    std::vector<std::string> warnings;
    const auto read = cache.read(e, &warnings);
    const Hessian& written = *items[e].hessian;
    EXPECT_TRUE(warnings.empty()) << warnings.front();
    EXPECT_EQ(read->count, written.count);
    EXPECT_EQ(read->sum_squares, written.sum_squares);
    for (std::int64_t i = 0; i < written.n(); ++i) {
      for (std::int64_t j = i; j < written.n(); ++j)
        ASSERT_EQ(read->view()(i, j), written.view()(i, j));
    }
  }
  EXPECT_EQ(cache.sha256(), sha256_file(path));
}

TEST(HessianCache, find_needs_name_width_count_and_triangle) {
  CacheBytes file;
  file.header(3).entry("full", 1, 5, 1).put(2.0).put(2.0);
  file.entry("diagonal", 2, 5, 0).put(1.0).put(1.0);
  file.entry("unseen", 1, 0, 1).put(0.0).put(0.0);
  const fs::path path = new_path("find");
  write_bytes(path, file.bytes);
  const HessianCache cache = HessianCache::open(path);
  EXPECT_EQ(cache.find("full", 1), std::optional<std::size_t>(0));
  EXPECT_EQ(cache.find("full", 2), std::nullopt);
  EXPECT_EQ(cache.find("diagonal", 2), std::nullopt);
  EXPECT_EQ(cache.find("unseen", 1), std::nullopt);
  EXPECT_EQ(cache.find("absent", 1), std::nullopt);
}

TEST(HessianCache, diagonal_only_entry_is_followed_by_another_entry) {
  CacheBytes file;
  file.header(2).entry("diagonal", 3, 5, 0).put(1.0).put(2.0).put(3.0);
  file.entry("next", 1, 7, 1).put(4.0).put(4.0);
  const fs::path path = new_path("hlen0");
  write_bytes(path, file.bytes);
  const HessianCache cache = HessianCache::open(path);
  EXPECT_EQ(cache.read_sum_squares(0), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(cache.read_diagonal(0), (std::vector<double>{1, 2, 3}));
  EXPECT_THROW((void)cache.read(0), Error);
  EXPECT_EQ(cache.read(1)->view()(0, 0), 4);
}

TEST(HessianCache, offsets_beyond_4_gib_are_right) {
  constexpr std::uint64_t kCols = 40000;
  CacheBytes head, tail;
  head.header(2).entry("wide", kCols, 9, kCols * kCols);
  tail.entry("behind", 2, 3, 4).put(5.0).put(2.5).put(5.0).put(1.0).put(2.5);
  const std::uint64_t end = head.bytes.size() + 8 * (kCols + kCols * (kCols + 1) / 2);
  const fs::path path = new_path("large");
  write_bytes(path, head.bytes);
  std::error_code code;
  fs::resize_file(path, end, code);
  if (code) GTEST_SKIP() << "the temporary folder takes no sparse file: " << code.message();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(end));
    file << tail.bytes;
  }
  const HessianCache cache = HessianCache::open(path);
  ASSERT_EQ(cache.find("behind", 2), std::optional<std::size_t>(1));
  EXPECT_GT(cache.entries()[1].payload_offset, std::uint64_t{1} << 32);
  EXPECT_EQ(cache.read(1)->view()(0, 1), 1.0);
  EXPECT_EQ(cache.read_diagonal(0), std::vector<double>(kCols, 0.0));
}

TEST(HessianCacheDamage, foreign_and_short_files_are_no_cache) {
  for (const std::string bytes : {"", "CMFH", "CMFHESS1", "CMFHESS1\1\0\0"})
    expect_contains(open_error(bytes), "not a Hessian cache");
  expect_contains(open_error("CMFHESS2" + std::string(8, '\0')), "not a Hessian cache");
}

TEST(HessianCacheDamage, counts_that_do_not_fit_are_refused_before_allocation) {
  CacheBytes entries, names, name;
  entries.header(~std::uint64_t{0});
  expect_contains(open_error(entries.bytes), "18446744073709551615 entries");
  names.header(1)
      .put(~std::uint32_t{0})
      .put(std::uint64_t{0})
      .put(std::uint64_t{0})
      .put(std::uint64_t{0});
  expect_contains(open_error(names.bytes), "4294967295 names");
  name.header(1)
      .put(std::uint32_t{1})
      .put(~std::uint32_t{0})
      .put(std::uint64_t{0})
      .put(std::uint64_t{0})
      .put(std::uint64_t{0});
  expect_contains(open_error(name.bytes), "a name of 4294967295 bytes");
}

TEST(HessianCacheDamage, widths_and_matrix_sizes) {
  expect_contains(open_error(one_entry(0, 0, 2)), "0 columns");
  expect_contains(open_error(one_entry(65537, 0, 2)), "65537 columns");
  expect_contains(open_error(one_entry(std::uint64_t{1} << 32, 0, 2)), "columns");
  expect_contains(open_error(one_entry(2, 3, 5)), "a matrix of 3 elements for 2 columns");
}

TEST(HessianCacheDamage, every_truncation_is_refused_while_indexing) {
  CacheBytes file;
  file.header(2).entry("first", 2, 3, 4);
  for (int i = 0; i < 5; ++i) file.put(1.0);
  file.entry("second", 1, 3, 0).put(1.0);
  for (std::size_t size = 0; size < file.bytes.size(); ++size)
    (void)open_error(file.bytes.substr(0, size));
  const fs::path path = new_path("whole");
  write_bytes(path, file.bytes);
  EXPECT_EQ(HessianCache::open(path).entries().size(), 2U);
}

TEST(HessianCacheDamage, payload_past_the_end_names_entry_and_sizes) {
  const std::string text = open_error(one_entry(60000, 60000ULL * 60000ULL, 3));
  expect_contains(text, "entry 1");
  expect_contains(text, "pass the end of the file");
}

TEST(HessianCacheDamage, trailing_bytes_names_and_duplicates) {
  expect_contains(open_error(one_entry(1, 1, 2) + "xyz"), "3 bytes follow the last entry");
  CacheBytes utf8, twice;
  utf8.header(1).entry("\xFF\xFE", 1, 1, 1).put(1.0).put(1.0);
  expect_contains(open_error(utf8.bytes), "not UTF-8");
  twice.header(2).entry("same", 1, 1, 1).put(1.0).put(1.0).entry("same", 1, 1, 1).put(1.0).put(1.0);
  expect_contains(open_error(twice.bytes), "the name same occurs twice");
}

TEST(HessianCacheDamage, missing_file_is_an_io_error) {
  try {
    (void)HessianCache::open("/nonexistent/a.hess");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST(HessianCacheDamage, single_flipped_bits_never_crash) {
  const fs::path path = new_path("flip");
  write_cache(path, {{{"a", "b"}, random_hessian(3, 1)}, {{"c"}, random_hessian(2, 2)}});
  const std::string good = test::read_bytes(path);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    write_bytes(path, bytes);
    try {
      const HessianCache cache = HessianCache::open(path);
      for (std::size_t e = 0; e < cache.entries().size(); ++e) (void)cache.read_diagonal(e);
    } catch (const Error&) {
      continue;
    }
  }
}

TEST(HessianCacheValues, non_finite_values_are_errors_that_name_the_tensor) {
  // n = 2: sums, then H00 H01 H11.
  for (std::size_t at = 0; at < 5; ++at) {
    for (const double bad : {kNaN, HUGE_VAL, -HUGE_VAL}) {
      double numbers[5] = {5, 2.5, 5, 1, 2.5};
      numbers[at] = bad;
      CacheBytes file;
      file.header(1).entry("the.tensor", 2, 3, 4);
      for (const double number : numbers) file.put(number);
      const fs::path path = new_path("nan");
      write_bytes(path, file.bytes);
      const HessianCache cache = HessianCache::open(path);
      try {
        (void)cache.read(0);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
        expect_contains(error.what(), "the.tensor");
      }
    }
  }
}

TEST(HessianCacheValues, odd_values_are_warnings) {
  const auto warnings_of = [](std::uint64_t count, std::vector<double> numbers) {
    CacheBytes file;
    file.header(1).entry("t", 2, count, 4);
    for (const double number : numbers) file.put(number);
    const fs::path path = new_path("odd");
    write_bytes(path, file.bytes);
    std::vector<std::string> warnings;
    (void)HessianCache::open(path).read(0, &warnings);
    return std::accumulate(warnings.begin(), warnings.end(), std::string());
  };
  EXPECT_EQ(warnings_of(3, {5, 2.5, 5, 1, 2.5}), "");
  EXPECT_EQ(warnings_of(3, {5.04, 2.5, 5, 1, 2.5}), "");
  expect_contains(warnings_of(3, {5, -2.5, 5, 0, -2.5}),
                  "1 of 2 diagonal entries of its Hessian are negative");
  expect_contains(warnings_of(3, {5, 2.5, 5, 3.6, 2.5}),
                  "1 entries of its Hessian are larger than the diagonal allows");
  expect_contains(warnings_of(3, {5.1, 2.5, 5, 1, 2.5}), "1 of 2 sums of squares differ");
  expect_contains(warnings_of(1, {5, 2.5, 5, 1, 2.5}), "1 rows for 2 channels");
  EXPECT_EQ(warnings_of(~std::uint64_t{0}, {5, 2.5, 5, 1, 2.5}), "");
}

TEST(HessianCacheValues, what_no_sum_of_squares_gives_is_an_error_with_place_and_numbers) {
  const auto message_of = [](std::vector<double> numbers) -> std::string {
    CacheBytes file;
    file.header(1).entry("t", 2, 3, 4);
    for (const double number : numbers) file.put(number);
    const fs::path path = new_path("damage");
    write_bytes(path, file.bytes);
    try {
      (void)HessianCache::open(path).read(0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      expect_contains(error.what(), path.string());
      return error.what();
    }
    return "accepted";
  };
  // sqrt(5 * 2.5) = 3.53553
  EXPECT_EQ(message_of({5, 2.5, 5, 7.07, 2.5}), "accepted");
  expect_contains(message_of({5, 2.5, 5, -7.08, 2.5}),
                  "tensor t: its Hessian holds -7.08 at (0, 1), where the diagonal (5, 2.5) allows "
                  "at most 3.53553; the cache is damaged, capture it again");
  expect_contains(message_of({5, 2.5, 5, 1, -2.5}), "allows at most 0");
  expect_contains(message_of({5, 2.5, 10.1, 1, 2.5}),
                  "its sum of squares 0 is 5, its Hessian holds 10.1 there");
  // Channels whose squares underflow.
  EXPECT_EQ(message_of({5, 0, 5, 1e-9, 0}), "accepted");
  EXPECT_EQ(message_of({5, 1e-20, 5, 0, 0}), "accepted");
}

TEST(HessianCacheValues, every_flipped_bit_of_a_cache_with_an_identity_is_found) {
  const fs::path path = new_path("flip-identity");
  write_cache(path, {{{"a", "b"}, random_hessian(3, 1)}, {{"c"}, random_hessian(2, 2)}});
  EXPECT_EQ(HessianCache::open(path).sha256().size(), 64U);
  const std::string good = test::read_bytes(path);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    write_bytes(path, bytes);
    EXPECT_THROW((void)HessianCache::open(path).sha256(), Error) << "bit " << bit;
  }
}

TEST(HessianCacheValues, flipped_exponents_of_a_cache_without_an_identity_are_found) {
  const fs::path path = new_path("flip-exponent");
  write_cache(path, {{{"a"}, random_hessian(6, 1)}});
  fs::remove(sidecar_path(path));
  const std::string good = test::read_bytes(path);
  const std::size_t sums = HessianCache::open(path).entries().front().payload_offset;
  std::vector<double> numbers((good.size() - sums) / 8);
  std::memcpy(numbers.data(), good.data() + sums, numbers.size() * 8);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::string bytes = good;
    const double flipped = numbers[i] * 0x1p64;
    std::memcpy(bytes.data() + sums + 8 * i, &flipped, 8);
    write_bytes(path, bytes);
    EXPECT_THROW((void)HessianCache::open(path).read(0), Error) << "number " << i;
  }
}

TEST(HessianCacheValues, counts_that_differ_between_inputs_of_all_tokens_are_warned_of) {
  const auto hessian = [](std::int64_t count) {
    auto h = random_hessian(3, 1);
    h->count = count;
    return h;
  };
  const fs::path path = new_path("counts");
  write_cache(path, {{{"model.layers.0.self_attn.q_proj.weight"}, hessian(7)},
                     {{"model.layers.0.mlp.experts.3.up_proj.weight"}, hessian(2)},
                     {{"model.layers.0.mlp.shared_expert.up_proj.weight"}, hessian(7)}});
  EXPECT_TRUE(HessianCache::open(path).count_warnings().empty());
  write_cache(path, {{{"a"}, hessian(7)}, {{"b"}, hessian(9)}, {{"c"}, hessian(7)}});
  const auto warnings = HessianCache::open(path).count_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  expect_contains(warnings.front(), "tensor b counts 9 rows, other inputs count 7");
}

TEST(InspectEntry, gives_health_from_the_diagonal_and_warnings_from_a_full_read) {
  CacheBytes file;
  file.header(2).entry("t", 2, 1, 4).put(0.0).put(2.5).put(0.0).put(1e-7).put(2.5);
  file.put(std::uint32_t{0})
      .put(std::uint64_t{1})
      .put(std::uint64_t{0})
      .put(std::uint64_t{0})
      .put(7.0);
  const fs::path path = new_path("inspect");
  write_bytes(path, file.bytes);
  const HessianCache cache = HessianCache::open(path);
  Pool pool(1);
  const CacheEntryStats quick = inspect_entry(cache, 0, InspectDepth::kDiagonal, pool);
  EXPECT_EQ(quick.names, std::vector<std::string>{"t"});
  EXPECT_EQ(quick.health.dead_channels, 1);
  EXPECT_EQ(quick.health.mean_diagonal, 2.5);
  EXPECT_TRUE(quick.health.rank_deficient);
  EXPECT_TRUE(quick.warnings.empty());
  EXPECT_EQ(quick.channels.dead, std::vector<std::int64_t>{0});
  EXPECT_FALSE(quick.condition.has_value());
  const CacheEntryStats full = inspect_entry(cache, 0, InspectDepth::kFull, pool);
  EXPECT_EQ(full.warnings.size(), 2U);
  EXPECT_NEAR(full.condition.value().largest, 2.5, 1e-12);
  const CacheEntryStats diagonal = inspect_entry(cache, 1, InspectDepth::kFull, pool);
  EXPECT_TRUE(diagonal.names.empty());
  EXPECT_FALSE(diagonal.has_triangle);
  CacheBytes damaged;
  damaged.header(1).entry("t", 2, 3, 4).put(5.0).put(2.5).put(5.0).put(100.0).put(2.5);
  write_bytes(path, damaged.bytes);
  const CacheEntryStats found =
      inspect_entry(HessianCache::open(path), 0, InspectDepth::kFull, pool);
  ASSERT_EQ(found.warnings.size(), 1U);
  expect_contains(found.warnings.front(), "the cache is damaged");
}

}  // namespace
}  // namespace cortiq::calib
