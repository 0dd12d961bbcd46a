// gptq on a device, and the commands devices and selftest. The device is the first usable one, or the one whose index
// stands in CORTIQ_TEST_DEVICE; without any, or in a build without Vulkan, the tests that need it are skipped.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json devices() { return json::parse(expect_exit(0, {"devices", "--json", "--quiet"}).out); }

json parse_file(const fs::path& path) { return json::parse(read_file(path)); }

}  // namespace

class DeviceCommand : public testing::Test {
 protected:
  void SetUp() override { folder_ = scratch_dir("device"); }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_ / name; }

  /// --device value of a usable device; empty where there is none.
  static std::string device() {
    const char* wanted = std::getenv("CORTIQ_TEST_DEVICE");
    const json list = devices();
    for (const json& entry : list["devices"]) {
      const std::string index = std::to_string(entry["index"].get<int>());
      if (entry["usable"].get<bool>() && (wanted == nullptr || index == wanted)) return "vulkan:" + index;
    }
    return {};
  }
  fs::path folder_;
};

#define NEED_DEVICE()                  \
  const std::string here = device();   \
  if (here.empty()) GTEST_SKIP() << "no usable Vulkan device: " << devices().value("why_none", "none is usable")

TEST_F(DeviceCommand, devices_lists_the_processor_and_each_device_or_why_there_is_none) {
  const json report = devices();
  EXPECT_GT(report["cpu"]["threads"].get<int>(), 0);
  EXPECT_FALSE(report["cpu"]["kernels"].get<std::string>().empty());
  const std::string text = expect_exit(0, {"devices", "--quiet"}).out;
  EXPECT_EQ(text.find("cpu: "), 0U);
  if (report["devices"].empty()) {
    EXPECT_FALSE(report["why_none"].get<std::string>().empty());
    EXPECT_NE(text.find("no Vulkan device: " + report["why_none"].get<std::string>()), std::string::npos);
  }
  for (const json& entry : report["devices"]) {
    EXPECT_NE(text.find(entry["name"].get<std::string>()), std::string::npos);
    EXPECT_GT(entry["memory_bytes"].get<std::uint64_t>(), 0U);
    EXPECT_GT(entry["subgroup_size"].get<int>(), 0);
    EXPECT_EQ(entry["usable"].get<bool>(), entry["missing"].empty());
    EXPECT_NE(entry["usable"].get<bool>(), entry["features"].empty());
  }
}

TEST_F(DeviceCommand, devices_says_why_there_is_none_where_no_driver_is_installed) {
  if (devices()["devices"].empty()) GTEST_SKIP() << "there is none anyway";
  const RunOptions no_driver{.environment = {"VK_DRIVER_FILES=/nowhere", "VK_ICD_FILENAMES=/nowhere"}};
  const ProgramResult result = expect_exit(0, {"devices", "--quiet"}, no_driver);
  EXPECT_NE(result.out.find("no Vulkan device: "), std::string::npos) << result.out;
  // auto goes on without, a device that was asked for does not.
  expect_exit(0, {"gptq", tiny_model(), "--output", path("x.cmf").string(), "--dry-run", "--quiet"}, no_driver);
  const ProgramResult refused = expect_exit(
      1, {"gptq", tiny_model(), "--output", path("x.cmf").string(), "--device", "vulkan:0", "--quiet"}, no_driver);
  EXPECT_NE(refused.err.find("--device vulkan:0: "), std::string::npos) << refused.err;
}

TEST_F(DeviceCommand, the_program_works_without_a_vulkan_loader_and_says_what_is_missing) {
  if (devices()["devices"].empty()) GTEST_SKIP() << "there is none anyway";
  std::ofstream(path("libvulkan.so.1")) << "no library";
  const RunOptions no_loader{.environment = {"LD_LIBRARY_PATH=" + folder_.string()}};
  const ProgramResult result = expect_exit(0, {"devices", "--quiet"}, no_loader);
  EXPECT_EQ(result.out.find("cpu: "), 0U);
  EXPECT_NE(result.out.find("no Vulkan device: Vulkan loader: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("install libvulkan1 and a driver"), std::string::npos) << result.out;
}

TEST_F(DeviceCommand, kernels_are_listed_with_their_sizes_or_why_they_are_absent) {
  const json kernels = json::parse(expect_exit(0, {"devices", "--shaders", "--json", "--quiet"}).out)["kernels"];
  const std::string text = expect_exit(0, {"devices", "--shaders", "--quiet"}).out;
  if (kernels.empty()) {
    EXPECT_NE(text.find("built without Vulkan"), std::string::npos);
    return;
  }
  for (const json& kernel : kernels) {
    EXPECT_NE(text.find(kernel["name"].get<std::string>()), std::string::npos);
    EXPECT_EQ(kernel["present"].get<bool>(), kernel["bytes"].get<int>() > 0);
    EXPECT_NE(kernel["present"].get<bool>(), kernel.contains("why_absent"));
    EXPECT_TRUE(kernel["present"].get<bool>() || kernel["needs_cooperative_matrix"].get<bool>()) << kernel;
  }
}

TEST_F(DeviceCommand, gptq_on_a_device_is_as_good_as_on_the_host_and_gives_the_same_file_twice) {
  NEED_DEVICE();
  short_gptq(path("host.cmf"), {"--device", "cpu", "--hessians", path("cache").string()});
  short_gptq(path("device.cmf"), {"--device", here, "--report", path("report.json").string()});
  short_gptq(path("again.cmf"), {"--device", here});
  EXPECT_EQ(tensor_hashes(path("device.cmf")), tensor_hashes(path("again.cmf")));
  EXPECT_TRUE(same_bytes(path("device.cmf"), path("again.cmf")));
  const double host = perplexity_of(path("host.cmf"));
  const double there = perplexity_of(path("device.cmf"));
  EXPECT_LT(std::fabs(there / host - 1), 0.01) << host << " " << there;
  expect_exit(0, {"verify", path("device.cmf").string(), "--quiet"});

  const json report = parse_file(path("report.json"));
  EXPECT_EQ(report["device"]["device_groups"], 16);
  EXPECT_EQ(report["device"]["host_groups"], 0);
  EXPECT_TRUE(report["device"]["host_reasons"].empty());
  const std::string name = report["device"]["name"];
  EXPECT_NE(expect_exit(0, {"devices", "--quiet"}).out.find(name), std::string::npos);
  int on_device = 0;
  for (const json& tensor : report["tensors"]) on_device += tensor.value("backend", "") == name ? 1 : 0;
  EXPECT_EQ(on_device, 28);

  // From a cache the Hessians are the same but for their f32: the device takes them too.
  short_gptq(path("cached.cmf"),
             {"--device", here, "--hessians", path("cache").string(), "--report", path("cached.json").string()});
  EXPECT_EQ(parse_file(path("cached.json"))["device"]["device_groups"], 16);
  EXPECT_LT(std::fabs(perplexity_of(path("cached.cmf")) / host - 1), 0.01);
}

TEST_F(DeviceCommand, the_host_writes_the_same_bytes_whether_or_not_there_are_devices) {
  short_gptq(path("host.cmf"), {"--device", "cpu"});
  const RunOptions no_driver{.environment = {"VK_DRIVER_FILES=/nowhere", "VK_ICD_FILENAMES=/nowhere"}};
  expect_exit(0, {"gptq", tiny_model(), "--output", path("none.cmf").string(), "--calib", eval_text(), "--tokens", "2048", "--window",
                  "256", "--quiet"},
              no_driver);
  EXPECT_EQ(tensor_hashes(path("host.cmf")), tensor_hashes(path("none.cmf")));
}

TEST_F(DeviceCommand, a_codec_that_the_device_does_not_sweep_runs_on_the_host_and_the_report_says_why) {
  NEED_DEVICE();
  short_gptq(path("a.cmf"), {"--codec", "q1s", "--device", here, "--report", path("report.json").string()});
  short_gptq(path("b.cmf"), {"--codec", "q1s", "--device", "cpu"});
  EXPECT_EQ(tensor_hashes(path("a.cmf")), tensor_hashes(path("b.cmf")));
  const json report = parse_file(path("report.json"));
  EXPECT_EQ(report["device"]["device_groups"], 0);
  ASSERT_EQ(report["device"]["host_reasons"].size(), 1U);
  EXPECT_EQ(report["device"]["host_reasons"]["what is asked for its codec is done on the host"], report["device"]["host_groups"]);
}

TEST_F(DeviceCommand, too_little_device_memory_moves_groups_to_the_host_with_the_reason) {
  NEED_DEVICE();
  short_gptq(path("a.cmf"), {"--device", here, "--vram-gb", "0.001", "--report", path("report.json").string()});
  short_gptq(path("b.cmf"), {"--device", "cpu"});
  EXPECT_EQ(tensor_hashes(path("a.cmf")), tensor_hashes(path("b.cmf")));
  const json report = parse_file(path("report.json"));
  EXPECT_EQ(report["device"]["device_groups"], 0);
  EXPECT_NE(report["device"]["host_reasons"].begin().key().find("MB"), std::string::npos);
}

TEST_F(DeviceCommand, wrong_device_values_are_refused_by_name) {
  const auto refuse = [&](int code, const std::string& value) {
    const ProgramResult result =
        expect_exit(code, {"gptq", tiny_model(), "--output", path("x.cmf").string(), "--device", value, "--quiet"});
    EXPECT_NE(result.err.find(value), std::string::npos) << result.err;
  };
  for (const char* value : {"gpu", "cpu,vulkan", "cuda:0"}) refuse(2, value);
  refuse(1, "vulkan:97");
  refuse(1, "vulkan:no-such-card");
  expect_exit(2, {"gptq", tiny_model(), "--output", path("x.cmf").string(), "--vram-gb", "0", "--quiet"});
  EXPECT_FALSE(fs::exists(path("x.cmf")));
}

TEST_F(DeviceCommand, selftest_measures_properties_and_speeds) {
  NEED_DEVICE();
  const json report = json::parse(expect_exit(0, {"selftest", "--device", here, "--json", "--quiet"}).out);
  EXPECT_TRUE(report["passed"].get<bool>());
  const json& device = report["devices"][0];
  EXPECT_GE(device["lines"].size(), 50U);
  for (const json& line : device["lines"]) EXPECT_TRUE(line["passed"].get<bool>()) << line;
  EXPECT_TRUE(device["problems"].empty()) << device["problems"];
  ASSERT_GE(device["speeds"].size(), 3U);
  for (const json& speed : device["speeds"]) {
    EXPECT_GT(speed["wall_ms"].get<double>(), 0) << speed;
    EXPECT_GT(speed["host_ms"].get<double>(), 0) << speed;
  }
}

TEST_F(DeviceCommand, selftest_refuses_the_host_and_devices_that_are_not_there) {
  EXPECT_NE(expect_exit(2, {"selftest", "--device", "cpu", "--quiet"}).err.find("--device cpu"), std::string::npos);
  expect_exit(1, {"selftest", "--device", "vulkan:97", "--quiet"});
}

}  // namespace cortiq::test
