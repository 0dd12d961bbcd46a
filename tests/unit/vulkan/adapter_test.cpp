#include "vulkan_fixture.hpp"

namespace cortiq::vulkan {
namespace {

using AdapterTest = test::VulkanTest;

TEST_F(AdapterTest, adapters_are_described_in_the_loaders_order) {
  const auto adapters = instance_->adapters();
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const Adapter& adapter = adapters[i];
    EXPECT_EQ(adapter.index, static_cast<int>(i));
    EXPECT_FALSE(adapter.name.empty());
    EXPECT_EQ(adapter.uuid.size(), 32U);
    if (!adapter.usable()) continue;
    EXPECT_GE(adapter.shared_bytes, 32768U);
    EXPECT_GE(adapter.workgroup_threads, 256U);
    EXPECT_GT(adapter.memory_bytes, 0U);
    EXPECT_GT(adapter.budget_bytes, 0U);
    EXPECT_LE(adapter.budget_bytes, adapter.memory_bytes);
    EXPECT_GT(adapter.allocation_bytes, 0U);
  }
}

TEST_F(AdapterTest, a_device_that_is_gone_since_it_was_listed_is_refused) {
  Adapter gone = *adapter_;
  gone.index = 99;
  EXPECT_EQ(error_of([&] { (void)Context::open(instance_, gone); }), ErrorKind::kDevice);
  EXPECT_NE(message_.find("device 99"), std::string::npos);
}

TEST(AdapterTypeTest, each_type_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (const AdapterType type :
       {AdapterType::kDiscrete, AdapterType::kIntegrated, AdapterType::kVirtual, AdapterType::kCpu, AdapterType::kOther})
    EXPECT_TRUE(names.insert(adapter_type_name(type)).second);
  EXPECT_EQ(adapter_type_name(AdapterType::kCpu), std::string("software"));
}

}  // namespace
}  // namespace cortiq::vulkan
