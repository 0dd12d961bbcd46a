// What lies on disk: sums by file system, refusals with numbers.
#include "../../../src/pipeline/disk_plan.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"
#include "data_dirs.hpp"

namespace cortiq::pipeline {
namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;

std::string refusal(const std::vector<DiskItem>& items) {
  try {
    check_disk(items);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRefused);
    return error.what();
  }
  return "accepted";
}

TEST(DiskPlan, what_fits_passes_and_is_shown) {
  const auto folder = test::scratch_dir("disk");
  const std::vector<DiskItem> items{{"output", folder / "o", 1500000},
                                    {"cache", folder / "c.L0-1", 100000},
                                    {"cache", folder / "c.L2-3", 200000},
                                    {"hidden states", folder / "h", 0}};
  EXPECT_EQ(refusal(items), "accepted");
  const std::string text = disk_text(items);
  EXPECT_TRUE(text.starts_with("output 1.5 MB, cache 0.3 MB in " + folder.string() +
                               ": 1.8 MB of "))
      << text;
  EXPECT_TRUE(text.ends_with(" MB that are free")) << text;
}

TEST(DiskPlan, items_of_one_file_system_are_added_up) {
  const auto folder = test::scratch_dir("disk-sum");
  const std::uint64_t available = free_space_bytes(folder / "x").value();
  // Either fits alone with a wide margin, both together do not.
  const std::uint64_t part = available / 4 * 3;
  EXPECT_EQ(refusal({{"output", folder / "o", part}}), "accepted");
  const std::string both = refusal({{"output", folder / "o", part}, {"spill", folder / "s", part}});
  EXPECT_NE(both.find("not enough space on disk: output"), std::string::npos) << both;
  EXPECT_NE(both.find(fmt::format("need {} bytes and ", 2 * part)), std::string::npos) << both;
  EXPECT_NE(both.find("spill " + (folder / "s").string()), std::string::npos) << both;
  EXPECT_NE(both.find("--spill"), std::string::npos) << both;
}

TEST(DiskPlan, what_an_unfinished_file_occupies_is_not_needed_again) {
  const auto folder = test::scratch_dir("disk-held");
  const std::string megabyte(1 << 20, 'x');
  std::ofstream(folder / "o.partial", std::ios::binary) << megabyte;
  const std::string message = refusal({{"output", folder / "o", kHuge}});
  EXPECT_NE(message.find(fmt::format("need {} bytes", kHuge - (1 << 20))), std::string::npos)
      << message;
}

TEST(DiskPlan, chunks_are_named_once) {
  const auto folder = test::scratch_dir("disk-chunks");
  std::vector<DiskItem> items;
  for (int i = 0; i < 3; ++i) items.push_back({"cache", folder / fmt::format("c.L{}", i), kHuge});
  const std::string message = refusal(items);
  EXPECT_NE(message.find("c.L0 and 2 more ("), std::string::npos) << message;
}

}  // namespace
}  // namespace cortiq::pipeline
