// A capture that may hold only a part of its Hessians: the bits are those of one that holds all.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cortiq/calib/hessian.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t kWidths[] = {40, 96, 33, 520};

std::vector<model::InputGroup> groups() {
  std::vector<model::InputGroup> list;
  for (std::int64_t e = 0; e < 4; ++e)
    list.push_back({1, model::Role::kExpertIn, e, kWidths[e], {"t" + std::to_string(e)}});
  return list;
}

/// Uneven batches, the experts in turn; the last one sees nothing.
void feed(Capture& capture) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 9; ++round) {
    for (std::int64_t e = 0; e < 3; ++e) {
      const std::int64_t rows = 1 + (round * 131 + e * 57) % 400;
      std::vector<float> x(static_cast<std::size_t>(rows * kWidths[e]));
      std::generate(x.begin(), x.end(), [&] { return normal(random); });
      capture.observe({1, model::Role::kExpertIn, e, {x.data(), rows, kWidths[e]}});
    }
  }
}

void expect_equal(const Hessian& a, const Hessian& b) {
  ASSERT_EQ(a.n(), b.n());
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.sum_squares, b.sum_squares);
  for (std::int64_t i = 0; i < a.n(); ++i) {
    for (std::int64_t j = i; j < a.n(); ++j) EXPECT_EQ(a.view()(i, j), b.view()(i, j)) << i << j;
  }
}

TEST(HessianSpill, a_limited_capture_gives_the_bits_of_an_unlimited_one) {
  Pool pool(2);
  const fs::path folder = test::scratch_dir("hessian-spill");
  Capture whole(groups(), pool);
  feed(whole);
  whole.settle();
  for (const std::uint64_t bytes : {1U, 60000U, 1U << 30U}) {
    Capture limited(groups(), pool, CaptureLimit{bytes, folder});
    feed(limited);
    limited.settle();
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(limited.count(i), whole.count(i));
      expect_equal(*limited.read(i), *whole.read(i));
      expect_equal(*limited.take(i), *whole.read(i));
    }
  }
  EXPECT_TRUE(fs::is_empty(folder)) << "the temporary file has no name";
}

TEST(HessianSpill, taking_without_settling_is_the_same) {
  Pool pool(1);
  const fs::path folder = test::scratch_dir("hessian-spill-take");
  Capture whole(groups(), pool);
  Capture limited(groups(), pool, CaptureLimit{1, folder});
  feed(whole);
  feed(limited);
  for (std::size_t i = 0; i < 4; ++i) expect_equal(*limited.take(i), *whole.take(i));
}

TEST(HessianSpill, a_folder_that_cannot_be_written_is_named) {
  Pool pool(1);
  try {
    const Capture capture(groups(), pool, CaptureLimit{1, "/no/such/folder"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
  }
}

TEST(HessianSpill, resident_bytes_are_the_pages_of_the_upper_triangle) {
  EXPECT_EQ(resident_hessian_bytes(1), 4096U);
  // 512 columns: a row is a page. All pages hold a part of the triangle.
  EXPECT_EQ(resident_hessian_bytes(512), 512U * 4096);
  // 4096 columns: a row is 8 pages, of which the triangle needs 8, …, 1 for 512 rows each.
  EXPECT_EQ(resident_hessian_bytes(4096), 512U * (8 + 7 + 6 + 5 + 4 + 3 + 2 + 1) * 4096);
}

}  // namespace
}  // namespace cortiq::calib
