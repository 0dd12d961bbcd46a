#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cache_files.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using test::random_hessian;
using test::read_bytes;
using test::write_cache;

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

TEST(HessianCacheWriter, worked_example_of_the_specification_byte_for_byte) {
  static const unsigned char kExpected[98] = {
      0x43, 0x4d, 0x46, 0x48, 0x45, 0x53, 0x53, 0x31, 0x01, 0,    0,    0,    0, 0, 0, 0,     // 00
      0x02, 0,    0,    0,    0x03, 0,    0,    0,    0x6c, 0x2e, 0x71, 0x03, 0, 0, 0, 0x6c,  // 10
      0x2e, 0x6b, 0x02, 0,    0,    0,    0,    0,    0,    0,    0x03, 0,    0, 0, 0, 0,     // 20
      0,    0,    0x04, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0,     // 30
      0x14, 0x40, 0,    0,    0,    0,    0,    0,    0x04, 0x40, 0,    0,    0, 0, 0, 0,     // 40
      0x14, 0x40, 0,    0,    0,    0,    0,    0,    0xf0, 0x3f, 0,    0,    0, 0, 0, 0,     // 50
      0x04, 0x40};
  Hessian hessian(2);
  hessian.view()(0, 0) = 5;
  hessian.view()(0, 1) = 1;
  hessian.view()(1, 1) = 2.5;
  hessian.count = 3;
  for (const bool known : {false, true}) {
    const fs::path path = test::scratch_dir("example") / "a.hess";
    HessianCacheWriter writer(path, known ? std::optional<std::uint64_t>(1) : std::nullopt);
    writer.add({"l.q", "l.k"}, hessian);
    writer.commit({});
    const std::string expected(reinterpret_cast<const char*>(kExpected), sizeof(kExpected));
    EXPECT_EQ(read_bytes(path), expected);
    EXPECT_NE(read_bytes(sidecar_path(path)).find(sha256_hex(expected)), std::string::npos);
  }
}

TEST(HessianCacheWriter, size_is_what_cache_bytes_says_and_a_wrong_entry_count_is_mended) {
  const fs::path path = test::scratch_dir("size") / "a.hess";
  std::vector<model::InputGroup> groups(2);
  groups[0].tensors = {"one", "two"};
  groups[0].width = 33;
  groups[1].tensors = {"three"};
  groups[1].width = 1;
  {
    HessianCacheWriter writer(path, 7);
    writer.reserve(cache_bytes(groups));
    writer.add(groups[0].tensors, *random_hessian(33, 1));
    writer.add(groups[1].tensors, *random_hessian(1, 2));
    writer.commit({});
  }
  EXPECT_EQ(fs::file_size(path), cache_bytes(groups));
  EXPECT_EQ(HessianCache::open(path).entries().size(), 2U);
  EXPECT_NE(read_bytes(sidecar_path(path)).find(sha256_file(path)), std::string::npos);
}

TEST(HessianCacheWriter, end_before_commit_leaves_the_old_file_and_no_temporary) {
  const fs::path folder = test::scratch_dir("crash");
  const fs::path path = folder / "a.hess";
  write_cache(path, {{{"old"}, random_hessian(5, 1)}});
  const std::string before = read_bytes(path);
  const std::string sidecar = read_bytes(sidecar_path(path));
  {
    HessianCacheWriter writer(path);
    writer.add({"new"}, *random_hessian(6, 2));
  }
  EXPECT_EQ(read_bytes(path), before);
  EXPECT_EQ(read_bytes(sidecar_path(path)), sidecar);
  EXPECT_EQ(files_in(folder), 2U);
}

TEST(HessianCacheWriter, two_writers_of_one_path_do_not_disturb_each_other) {
  const fs::path folder = test::scratch_dir("two");
  HessianCacheWriter first(folder / "a.hess");
  HessianCacheWriter second(folder / "a.hess");
  first.add({"first"}, *random_hessian(4, 1));
  second.add({"second"}, *random_hessian(5, 2));
  first.commit({});
  EXPECT_EQ(HessianCache::open(folder / "a.hess").entries()[0].names[0], "first");
  second.commit({});
  EXPECT_EQ(HessianCache::open(folder / "a.hess").entries()[0].names[0], "second");
  EXPECT_EQ(files_in(folder), 2U);
}

TEST(HessianCacheWriter, two_runs_give_equal_bytes) {
  const fs::path folder = test::scratch_dir("equal");
  for (const char* name : {"a.hess", "b.hess"})
    write_cache(folder / name, {{{"x"}, random_hessian(70, 3)}});
  EXPECT_EQ(read_bytes(folder / "a.hess"), read_bytes(folder / "b.hess"));
}

TEST(HessianCacheWriter, refuses_names_that_no_reader_takes) {
  HessianCacheWriter writer(test::scratch_dir("names") / "a.hess");
  const auto hessian = random_hessian(2, 1);
  EXPECT_THROW(writer.add({""}, *hessian), Error);
  EXPECT_THROW(writer.add({std::string(4097, 'x')}, *hessian), Error);
  EXPECT_THROW(writer.add({"\xFF"}, *hessian), Error);
  writer.add({"a"}, *hessian);
  EXPECT_THROW(writer.add({"a"}, *hessian), Error);
}

TEST(HessianCacheWriter, folder_that_is_not_there_is_an_io_error) {
  try {
    HessianCacheWriter writer(test::scratch_dir("absent") / "no" / "a.hess");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

}  // namespace
}  // namespace cortiq::calib
