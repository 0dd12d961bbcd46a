#include "cortiq/calib/part.hpp"

#include <gtest/gtest.h>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

model::Windows some_windows(std::int64_t count) {
  model::Windows windows;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<model::TokenId> ids(static_cast<std::size_t>(2 + i % 3),
                                    static_cast<model::TokenId>(i));
    windows.add(ids);
  }
  return windows;
}

TEST(Part, parts_follow_each_other_and_make_the_whole) {
  const model::Windows whole = some_windows(11);
  for (const std::int64_t count : {1, 2, 3, 4, 10, 11}) {
    model::Windows joined;
    for (std::int64_t number = 1; number <= count; ++number) {
      const model::Windows part = windows_of_part(whole, {number, count});
      EXPECT_GE(part.count(), 11 / count);
      EXPECT_LE(part.count(), 11 / count + 1);
      for (std::int64_t i = 0; i < part.count(); ++i) joined.add(part.window(i));
    }
    EXPECT_EQ(joined.ids, whole.ids) << count;
    EXPECT_EQ(joined.offsets, whole.offsets) << count;
  }
}

TEST(Part, more_parts_than_windows_are_refused) {
  try {
    (void)windows_of_part(some_windows(3), {2, 4});
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRefused);
    EXPECT_NE(std::string(error.what()).find("3 windows"), std::string::npos);
  }
}

TEST(Part, is_written_as_number_and_count) {
  EXPECT_EQ(parse_part("3/8").number, 3);
  EXPECT_EQ(parse_part("3/8").count, 8);
  for (const char* text : {"", "/", "3", "0/2", "3/2", "-1/2", "1/0", "1/2/3", "a/b", "1 /2",
                           "1/99999999999999999999"}) {
    EXPECT_THROW((void)parse_part(text), Error) << text;
  }
}

}  // namespace
}  // namespace cortiq::calib
