// Every CMF file of the reference program opens, verifies, and keeps its content when written
// again.
#include <gtest/gtest.h>

#include <algorithm>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/cmf/summary.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/cmf/writer.hpp"
#include "data_dirs.hpp"

namespace cortiq::cmf {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> model_files() {
  std::vector<fs::path> files;
  for (const fs::path& folder : test::golden_cases("model-")) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".cmf") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool equal_bytes(ByteSpan a, ByteSpan b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::uint64_t rewrite(const Reader& source, const fs::path& path) {
  std::vector<PlannedTensor> planned;
  for (const TensorInfo& tensor : source.tensors()) {
    planned.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.nbytes});
  }
  Writer writer(path, source.header(), planned,
                {source.masks(), source.vocab(), source.mask_index()});
  for (std::size_t i = planned.size(); i-- > 0;) {  // any order
    writer.write_tensor(i, source.payload(i).bytes());
  }
  return writer.finish(source.header());
}

void expect_equal_content(const Reader& a, const Reader& b) {
  EXPECT_TRUE(equal_bytes(a.vocab(), b.vocab()));
  EXPECT_TRUE(equal_bytes(a.masks(), b.masks()));
  EXPECT_TRUE(equal_bytes(a.mask_index(), b.mask_index()));
  EXPECT_EQ(a.features(), b.features());
  EXPECT_EQ(a.header().arch().dump(), b.header().arch().dump());
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (std::size_t i = 0; i < a.tensors().size(); ++i) {
    const TensorInfo& x = a.tensors()[i];
    const TensorInfo& y = b.tensors()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.dtype, y.dtype);
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_EQ(x.hash, y.hash);
    EXPECT_TRUE(equal_bytes(a.payload(i).bytes(), b.payload(i).bytes())) << x.name;
  }
}

TEST(GoldenModelFiles, OpenVerifyAndSurviveARewrite) {
  const std::vector<fs::path> files = model_files();
  if (files.empty()) GTEST_SKIP() << "no model-*/*.cmf below " << test::golden_dir();
  const fs::path folder = test::scratch_dir("cmf_rewrite");
  Pool pool(2);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    const auto reader = Reader::open(file);
    const VerifyReport report = verify(*reader, pool);
    EXPECT_EQ(report.problems, std::vector<std::string>{});
    EXPECT_EQ(report.warnings, std::vector<std::string>{});
    EXPECT_GT(report.tensors, 0);
    EXPECT_EQ(refuse_reason_for_quantize(*reader), "");

    const fs::path copy = folder / file.filename();
    const std::uint64_t size = rewrite(*reader, copy);
    EXPECT_EQ(size, fs::file_size(copy));
    const auto again = Reader::open(copy);
    const VerifyReport copy_report = verify(*again, pool);
    EXPECT_EQ(copy_report.problems, std::vector<std::string>{});
    EXPECT_EQ(copy_report.warnings, std::vector<std::string>{});
    expect_equal_content(*reader, *again);

    const Summary summary = summarize(*again);
    EXPECT_EQ(summary.file_bytes, size);
    EXPECT_EQ(summary.tensors.size(), again->tensors().size());
    EXPECT_GT(summary.bits_per_weight, 1.0);
  }
}

}  // namespace
}  // namespace cortiq::cmf
