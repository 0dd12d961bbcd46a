// Folders against the containers that the reference converter made of them, and every model of the
// zoo.
#include "cortiq/hf/folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cortiq/cmf/reader.hpp"
#include "data_dirs.hpp"

namespace cortiq::hf {
namespace {

namespace fs = std::filesystem;

TEST(GoldenFolder, equals_the_container_of_the_reference_converter) {
  const auto cases = cortiq::test::golden_cases("model-");
  if (cases.empty()) GTEST_SKIP() << "no golden model cases below " << cortiq::test::golden_dir();
  int compared = 0;
  for (const fs::path& folder : cases) {
    if (!is_model_folder(folder / "hf") || !fs::exists(folder / "f16.cmf")) continue;
    SCOPED_TRACE(folder.string());
    const auto source = Folder::open(folder / "hf");
    const auto reference = cmf::Reader::open(folder / "f16.cmf");
    ASSERT_EQ(source->tensors().size(), reference->tensors().size());
    for (std::size_t i = 0; i < source->tensors().size(); ++i) {
      const cmf::TensorInfo& ours = source->tensors()[i];
      const cmf::TensorInfo& theirs = reference->tensors()[i];
      ASSERT_EQ(ours.name, theirs.name);
      EXPECT_EQ(ours.dtype, theirs.dtype) << ours.name;
      EXPECT_EQ(ours.shape, theirs.shape) << ours.name;
      const cmf::Payload a = source->payload(i);
      const cmf::Payload b = reference->payload(i);
      EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes())) << ours.name;
    }
    EXPECT_TRUE(std::ranges::equal(source->vocab(), reference->vocab()));
    const cmf::Json& ours = source->header().json();
    const cmf::Json& theirs = reference->header().json();
    for (const auto& [key, value] : theirs["arch"].items())
      EXPECT_EQ(ours["arch"][key], value) << key;
    EXPECT_EQ(ours["quant_type"], theirs["quant_type"]);
    EXPECT_EQ(ours["tokenizer_config"], theirs["tokenizer_config"]);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Zoo, every_folder_opens_and_every_payload_has_its_size) {
  if (!fs::is_directory(cortiq::test::zoo_dir()))
    GTEST_SKIP() << "no model zoo at " << cortiq::test::zoo_dir();
  int models = 0;
  for (const fs::directory_entry& item : fs::directory_iterator(cortiq::test::zoo_dir())) {
    if (!is_model_folder(item.path())) continue;
    SCOPED_TRACE(item.path().string());
    const auto source = Folder::open(item.path());
    for (std::size_t i = 0; i < source->tensors().size(); ++i) {
      EXPECT_EQ(source->payload(i).bytes().size(), source->tensors()[i].nbytes)
          << source->tensors()[i].name;
    }
    EXPECT_GT(source->vocab().size(), 0U);
    // The header must survive the checks of a reader.
    EXPECT_NO_THROW(static_cast<void>(cmf::Header::parse(source->header().dump(), "zoo")));
    ++models;
  }
  EXPECT_GT(models, 0);
}

}  // namespace
}  // namespace cortiq::hf
