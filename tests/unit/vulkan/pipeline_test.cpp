#include <filesystem>
#include <fstream>

#include "data_dirs.hpp"
#include "vulkan_fixture.hpp"

namespace cortiq::vulkan {
namespace {

namespace fs = std::filesystem;

class PipelineTest : public test::VulkanTest {
 protected:
  static std::vector<fs::path> files_of(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    return files;
  }
  std::shared_ptr<Context> open(const fs::path& folder) {
    return Context::open(instance_, *adapter_, {.cache_folder = folder});
  }
  static void compile(Context& context) {
    const std::uint32_t constants[2] = {32, 1};
    (void)context.pipeline(Kernel::kWorkgroupMark, constants);
  }
};

TEST_F(PipelineTest, compiled_kernels_are_kept_in_the_cache_folder_under_the_devices_uuid) {
  const fs::path folder = cortiq::test::scratch_dir("pipelines") / "made when needed";
  {
    const auto context = open(folder);
    EXPECT_FALSE(fs::exists(folder));  // nothing compiled, nothing to keep
    compile(*context);
    context->save_pipeline_cache();
  }
  const auto files = files_of(folder);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_NE(files[0].string().find(adapter_->uuid), std::string::npos);
  EXPECT_GE(fs::file_size(files[0]), 32U);  // Vulkan's header of such data
  const auto again = open(folder);
  compile(*again);
}

TEST_F(PipelineTest, a_damaged_cache_file_costs_nothing_but_the_compilation) {
  const fs::path folder = cortiq::test::scratch_dir("damaged");
  {
    const auto context = open(folder);
    compile(*context);
  }
  const fs::path file = files_of(folder).at(0);
  for (const std::string& content : {std::string(), std::string("not a cache"), std::string(5000, 'x')}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const auto context = open(folder);
    compile(*context);
    context->save_pipeline_cache();
    EXPECT_NE(fs::file_size(file), content.size());
  }
}

TEST_F(PipelineTest, a_folder_that_cannot_be_written_is_no_failure_at_the_end_of_a_run) {
  const fs::path blocked = cortiq::test::scratch_dir("blocked") / "file";
  std::ofstream(blocked) << "in the way";
  EXPECT_EQ(error_of([&] { compile(*open(blocked)); }), std::nullopt);
}

TEST_F(PipelineTest, kernels_for_cooperative_matrices_are_there_only_on_devices_that_have_them) {
  for (int i = 0; i < static_cast<int>(Kernel::kCount); ++i) {
    const auto kernel = static_cast<Kernel>(i);
    const ShaderInfo shader = shader_info(kernel);
    const bool coop = shader.name.ends_with("_coop");
    EXPECT_EQ(context_->has(kernel), !shader.words.empty() && (!coop || adapter_->cooperative_matrix)) << shader.name;
  }
}

TEST(ShaderTableTest, each_kernel_has_a_name_and_spirv_or_nothing) {
  constexpr std::uint32_t kMagic = 0x07230203;
  std::set<std::string_view> names;
  for (int i = 0; i < static_cast<int>(Kernel::kCount); ++i) {
    const ShaderInfo shader = shader_info(static_cast<Kernel>(i));
    EXPECT_TRUE(names.insert(shader.name).second) << shader.name;
    EXPECT_TRUE(!shader.words.empty() || shader.name.ends_with("_coop")) << shader.name;
    if (shader.words.empty()) continue;
    EXPECT_EQ(shader.words[0], kMagic) << shader.name;
    EXPECT_GT(shader.words.size(), 100U) << shader.name;
  }
}

}  // namespace
}  // namespace cortiq::vulkan
