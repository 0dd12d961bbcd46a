// A cache whose writer was interrupted: the next one goes on behind the entries that are known.
#include <gtest/gtest.h>

#include "cache_files.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {
namespace fs = std::filesystem;
using test::random_hessian;
using test::read_bytes;

class HessianCacheResume : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::scratch_dir("cache-resume");
    test::write_cache(folder_ / "whole", {{{"a"}, random_hessian(9, 1)},
                                          {{"b", "c"}, random_hessian(12, 2)},
                                          {{"d"}, random_hessian(5, 3)}});
  }
  /// Writes two entries, then some bytes more, and goes away.
  CachePrefix interrupt() {
    auto writer = HessianCacheWriter::resumable(path_(), 3, std::nullopt);
    writer.reserve(fs::file_size(folder_ / "whole"));
    writer.add({"a"}, *random_hessian(9, 1));
    writer.add({"b", "c"}, *random_hessian(12, 2));
    CachePrefix prefix = writer.sync();
    writer.add({"x"}, *random_hessian(3, 9));
    static_cast<void>(writer.sync());
    writer.keep_partial();
    return prefix;
  }
  [[nodiscard]] fs::path path_() const { return folder_ / "cache"; }
  [[nodiscard]] fs::path partial() const { return folder_ / "cache.partial"; }

  fs::path folder_;
};

TEST_F(HessianCacheResume, continued_file_has_the_bytes_of_one_written_at_once) {
  const CachePrefix prefix = interrupt();
  EXPECT_EQ(prefix.entries, 2U);
  EXPECT_FALSE(fs::exists(path_()));
  {
    auto writer = HessianCacheWriter::resumable(path_(), 3, prefix);
    EXPECT_EQ(writer.entries(), 2U);
    writer.add({"d"}, *random_hessian(5, 3));
    writer.commit({});
  }
  EXPECT_EQ(read_bytes(path_()), read_bytes(folder_ / "whole"));
  EXPECT_EQ(read_bytes(sidecar_path(path_())), read_bytes(sidecar_path(folder_ / "whole")));
  EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(HessianCacheResume, foreign_or_damaged_or_absent_entries_start_it_anew) {
  const CachePrefix prefix = interrupt();
  CachePrefix foreign = prefix;
  foreign.sha256[5] = foreign.sha256[5] == '0' ? '1' : '0';
  {
    auto writer = HessianCacheWriter::resumable(path_(), 3, foreign);
    EXPECT_EQ(writer.entries(), 0U);
    writer.keep_partial();
  }
  static_cast<void>(interrupt());
  std::string bytes = read_bytes(partial());
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  test::write_bytes(partial(), bytes);
  EXPECT_EQ(HessianCacheWriter::resumable(path_(), 3, prefix).entries(), 0U);
  EXPECT_FALSE(fs::exists(partial())) << "a writer that is not told to keep it removes it";
  EXPECT_EQ(HessianCacheWriter::resumable(path_(), 3, prefix).entries(), 0U);
  test::write_bytes(partial(), bytes.substr(0, 30));
  EXPECT_EQ(HessianCacheWriter::resumable(path_(), 3, prefix).entries(), 0U);
}

}  // namespace
}  // namespace cortiq::calib
