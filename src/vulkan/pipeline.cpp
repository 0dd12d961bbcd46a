#include <algorithm>

#include "cortiq/support/file.hpp"
#include "cortiq/vulkan/context.hpp"
#include "state.hpp"

namespace cortiq::vulkan {

namespace {

bool needs_cooperative_matrix(Kernel kernel) { return shader_info(kernel).name.ends_with("_coop"); }

VkPipeline compile(Context::State& state, Kernel kernel, std::span<const std::uint32_t> constants) {
  const ShaderInfo shader = shader_info(kernel);
  VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = shader.words.size_bytes();
  module_info.pCode = shader.words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  check(state.api.CreateShaderModule(state.device, &module_info, nullptr, &module), "shader");
  std::vector<VkSpecializationMapEntry> entries;
  for (std::uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, 4 * i, 4});
  const VkSpecializationInfo special{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                     constants.size_bytes(), constants.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &special;
  info.layout = state.layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = state.api.CreateComputePipelines(state.device, state.cache, 1, &info,
                                                           nullptr, &pipeline);
  state.api.DestroyShaderModule(state.device, module, nullptr);
  if (result < 0) {
    fail(ErrorKind::kDevice, "device {}: kernel {} does not compile ({}); use --device cpu",
         state.adapter.name, shader.name, result_name(result));
  }
  return pipeline;
}

}  // namespace

bool Context::has(Kernel kernel) const {
  if (shader_info(kernel).words.empty()) return false;
  return !needs_cooperative_matrix(kernel) || state_->adapter.cooperative_matrix;
}

const Pipeline& Context::pipeline(Kernel kernel, std::span<const std::uint32_t> constants) {
  CORTIQ_ASSERT(has(kernel));
  const auto key = std::pair(static_cast<int>(kernel),
                             std::vector<std::uint32_t>(constants.begin(), constants.end()));
  const std::lock_guard lock(state_->mutex);
  auto& slot = state_->pipelines[key];
  if (!slot) {
    const VkPipeline handle = compile(*state_, kernel, constants);
    slot = std::make_unique<Pipeline>();
    slot->handle = handle;
  }
  return *slot;
}

void Context::save_pipeline_cache() {
  State& state = *state_;
  if (state.cache_file.empty() || state.pipelines.empty()) return;
  std::size_t bytes = 0;
  if (state.api.GetPipelineCacheData(state.device, state.cache, &bytes, nullptr) < 0) return;
  std::vector<std::byte> data(bytes);
  if (state.api.GetPipelineCacheData(state.device, state.cache, &bytes, data.data()) < 0) return;
  data.resize(bytes);
  std::error_code error;
  std::filesystem::create_directories(state.cache_file.parent_path(), error);
  AtomicFile file(state.cache_file, AtomicFile::Naming::kUnique);
  file.append(data);
  file.commit();
}

}  // namespace cortiq::vulkan
