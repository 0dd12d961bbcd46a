#include "cortiq/hf/folder.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cortiq/support/half.hpp"
#include "data_dirs.hpp"
#include "tiny_folder.hpp"

namespace cortiq::hf {
namespace {

using cmf::DType;
using cortiq::test::scratch_dir;
using test::tiny_config;
using test::tiny_weights;
using test::Weights;
using test::write_file;
using test::write_folder;
using test::fs::path;

/// Message of the refusal, "" if the folder opens.
std::string refusal(const path& folder, ErrorKind kind = ErrorKind::kInput) {
  try {
    static_cast<void>(Folder::open(folder));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

void expect_contains(const std::string& message, const std::string& piece) {
  EXPECT_NE(message.find(piece), std::string::npos) << message;
}

/// A model in two files with an index.
void write_shards(const path& folder) {
  test::fs::create_directories(folder);
  write_file(folder / "config.json", tiny_config().dump());
  Weights first;
  first.ramp("model.embed_tokens.weight", {8, 8})
      .ramp("model.layers.0.input_layernorm.weight", {8}, 1);
  Weights second;
  second.ramp("model.layers.0.self_attn.q_proj.weight", {8, 8}, 2)
      .ramp("model.norm.weight", {8}, 3);
  write_file(folder / "a.safetensors", first.bytes());
  write_file(folder / "b.safetensors", second.bytes());
  const test::Json index{{"weight_map",
                          {{"model.norm.weight", "b.safetensors"},
                           {"model.embed_tokens.weight", "a.safetensors"},
                           {"model.layers.0.input_layernorm.weight", "a.safetensors"},
                           {"model.layers.0.self_attn.q_proj.weight", "b.safetensors"}}}};
  write_file(folder / "model.safetensors.index.json", index.dump());
}

TEST(Folder, presents_header_tensors_and_values) {
  const path folder = scratch_dir("hf") / "tiny model";
  write_folder(folder, tiny_config(), tiny_weights());
  write_file(folder / "tokenizer.json", "{\"model\":{}}");
  const auto source = Folder::open(folder);
  EXPECT_EQ(source->header().json()["quant_type"], "F16");
  EXPECT_EQ(source->header().json()["provenance"]["source_model"], "tiny model");
  EXPECT_EQ(source->header().json()["provenance"]["weight_quant"], "f16");
  EXPECT_EQ(source->vocab().size(), 12U);
  ASSERT_EQ(source->tensors().size(), 4U);
  EXPECT_EQ(source->tensors()[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(source->tensors()[3].dtype, DType::kF16);
  const auto index = source->find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_EQ(index, 2U);
  const cmf::Payload payload = source->payload(*index);
  ASSERT_EQ(payload.bytes().size(), source->tensors()[2].nbytes);
  EXPECT_EQ(f16_to_f32(load_le<std::uint16_t>(payload.bytes().data() + 2 * 10)), 12.0F);
  EXPECT_FALSE(source->find("nothing").has_value());
  EXPECT_EQ(source->files().size(), 3U);
  source->release(0);
}

TEST(Folder, stores_matrices_in_the_wanted_type_and_the_rest_so_that_nothing_is_lost) {
  const path folder = scratch_dir("hf_types");
  Weights weights = tiny_weights();
  weights.ramp("model.layers.0.mlp.expert_bias", {4}).ramp("model.layers.0.small.weight", {2, 4});
  write_folder(folder, tiny_config(), weights);
  const auto dtypes = [&](DType wanted) {
    std::vector<DType> list;
    for (const auto& info : Folder::open(folder, {wanted})->tensors()) list.push_back(info.dtype);
    return list;
  };
  const auto f16 = DType::kF16;
  const auto bf16 = DType::kBf16;
  const auto f32 = DType::kF32;
  EXPECT_EQ(dtypes(f16), (std::vector<DType>{f16, f16, f16, f16, f32, f16}));
  EXPECT_EQ(dtypes(bf16), (std::vector<DType>{bf16, f32, bf16, f32, f32, f32}));
  EXPECT_EQ(dtypes(f32), (std::vector<DType>{f32, f32, f32, f32, f32, f32}));
  EXPECT_EQ(Folder::open(folder, {bf16})->header().json()["quant_type"], "BF16");
}

TEST(Folder, maps_f16_sources_without_a_copy) {
  const path folder = scratch_dir("hf_map");
  Weights weights = tiny_weights();
  std::vector<std::uint16_t> ones(96, 0x3C00);
  weights.add("model.layers.0.mlp.up_proj.weight", "F16", {12, 8}, test::raw(ones));
  write_folder(folder, tiny_config(), weights);
  const auto source = Folder::open(folder);
  const auto index = source->find("model.layers.0.mlp.up_proj.weight");
  ASSERT_TRUE(index.has_value());
  EXPECT_EQ(source->payload(*index).bytes().data(), source->payload(*index).bytes().data());
  EXPECT_NE(source->payload(0).bytes().data(), nullptr);
  EXPECT_EQ(load_le<std::uint16_t>(source->payload(*index).bytes().data() + 190), 0x3C00);
}

TEST(Folder, cuts_fused_tensors_and_converts_their_parts) {
  const path folder = scratch_dir("hf_fused");
  test::Json config = tiny_config();
  config["model_type"] = "qwen3_5_moe_text";
  config["layer_types"] = {"full_attention"};
  config["num_experts"] = 2;
  config["moe_intermediate_size"] = 3;
  Weights weights = tiny_weights();
  weights.ramp("model.layers.0.mlp.experts.down_proj", {2, 3, 8});     // transposed: [E, m, H]
  weights.ramp("model.layers.0.mlp.experts.gate_up_proj", {2, 6, 8});  // [E, 2m, H]
  write_folder(folder, config, weights);
  const auto source = Folder::open(folder);
  const auto value = [&](const std::string& name, std::int64_t at) {
    const auto index = source->find(name);
    if (!index) return -1.0F;
    return f16_to_f32(load_le<std::uint16_t>(source->payload(*index).bytes().data() + 2 * at));
  };
  EXPECT_EQ(value("model.layers.0.mlp.experts.1.down_proj.weight", 0), 24.0F);
  EXPECT_EQ(value("model.layers.0.mlp.experts.1.down_proj.weight", 1), 32.0F);
  EXPECT_EQ(value("model.layers.0.mlp.experts.1.down_proj.weight", 3), 25.0F);
  EXPECT_EQ(value("model.layers.0.mlp.experts.1.up_proj.weight", 0), 72.0F);
}

TEST(Folder, names_the_tensor_and_the_remedy_for_a_value_beyond_f16) {
  const path folder = scratch_dir("hf_range");
  Weights weights = tiny_weights();
  std::vector<float> values(8, 1.0F);
  values[5] = 70000.0F;
  weights.add("model.layers.0.post_attention_layernorm.weight", "F32", {8}, test::raw(values));
  write_folder(folder, tiny_config(), weights);
  const auto source = Folder::open(folder);
  try {
    static_cast<void>(source->payload(4));
    FAIL() << "no error";
  } catch (const Error& error) {
    expect_contains(
        error.what(),
        "model.safetensors: tensor model.layers.0.post_attention_layernorm.weight: element 5");
    expect_contains(error.what(), "--dtype bf16");
  }
  EXPECT_EQ(Folder::open(folder, {DType::kBf16})->payload(4).bytes().size(), 32U);
}

TEST(Folder, opens_shards_in_the_order_of_their_names) {
  const path folder = scratch_dir("hf_shards");
  write_shards(folder);
  const auto source = Folder::open(folder);
  ASSERT_EQ(source->tensors().size(), 4U);
  EXPECT_EQ(source->tensors()[1].name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(source->tensors()[2].name, "model.layers.0.self_attn.q_proj.weight");
}

TEST(Folder, refuses_a_shard_that_is_absent_doubled_swapped_or_foreign) {
  const path folder = scratch_dir("hf_bad_shards");
  const auto copy = [&](const char* from, const char* to) {
    test::fs::copy_file(folder / from, folder / to, test::fs::copy_options::overwrite_existing);
  };
  write_shards(folder);
  test::fs::remove(folder / "b.safetensors");
  expect_contains(refusal(folder), "1 of 2 weight files missing: b.safetensors");
  copy("a.safetensors", "b.safetensors");
  expect_contains(refusal(folder), "which the index puts into a.safetensors");
  write_shards(folder);
  write_file(folder / "b.safetensors", Weights().ramp("model.norm.weight", {8}).bytes());
  expect_contains(refusal(folder), "q_proj.weight (and 0 more) is not in b.safetensors");
  write_file(folder / "b.safetensors", Weights().ramp("other.weight", {8}).bytes());
  expect_contains(refusal(folder), "other.weight is not in model.safetensors.index.json");
  write_shards(folder);
  test::fs::resize_file(folder / "b.safetensors",
                        test::fs::file_size(folder / "b.safetensors") - 1);
  expect_contains(refusal(folder), "b.safetensors: tensor model.norm.weight");
  write_file(folder / "model.safetensors.index.json", R"({"weight_map":{"x":"../a.safetensors"}})");
  expect_contains(refusal(folder), "not a plain file name");
  write_file(folder / "model.safetensors.index.json", R"({"weight_map":)");
  expect_contains(refusal(folder), "not a JSON object");
}

TEST(Folder, refuses_incomplete_folders) {
  const path folder = scratch_dir("hf_incomplete");
  expect_contains(refusal(folder / "none"), "is not a folder");
  expect_contains(refusal(folder), "has no config.json");
  EXPECT_FALSE(is_model_folder(folder));
  write_file(folder / "config.json", tiny_config().dump());
  EXPECT_TRUE(is_model_folder(folder));
  write_file(folder / "pytorch_model.bin", "x");
  expect_contains(refusal(folder), "found pytorch_model.bin");
  write_folder(folder, tiny_config(), Weights().ramp("model.norm.weight", {8}));
  expect_contains(refusal(folder), "no model.embed_tokens.weight");
}

TEST(Folder, refuses_weights_that_disagree_with_the_configuration) {
  const path folder = scratch_dir("hf_disagree");
  test::Json config = tiny_config();
  config["head_dim"] = 16;
  write_folder(folder, config, tiny_weights());
  expect_contains(refusal(folder), "num_attention_heads 2 x head_dim 16 is 32");
  config = tiny_config();
  config["vocab_size"] = 9;
  write_folder(folder, config, tiny_weights());
  expect_contains(refusal(folder), "say [9, 8], but model.embed_tokens.weight is [8, 8]");
  config = tiny_config();
  config["num_hidden_layers"] = 2;
  write_folder(folder, config, tiny_weights());
  expect_contains(refusal(folder), "model.layers.1.input_layernorm.weight");
  config = tiny_config();
  config["attention_bias"] = true;
  write_folder(folder, config, tiny_weights());
  expect_contains(refusal(folder), "no model.layers.0.self_attn.q_proj.bias");
}

TEST(Folder, refuses_quantized_sources_by_dtype_or_method) {
  const path folder = scratch_dir("hf_quantized");
  Weights weights = tiny_weights();
  weights.add("model.layers.0.mlp.up_proj.weight", "F8_E4M3", {2}, "xx");
  write_folder(folder, tiny_config(), weights);
  const std::string message = refusal(folder, ErrorKind::kUnsupported);
  expect_contains(message, "model.layers.0.mlp.up_proj.weight has dtype F8_E4M3");
  test::Json config = tiny_config();
  config["quantization_config"] = {{"quant_method", "awq"}};
  write_folder(folder, config, tiny_weights());
  expect_contains(refusal(folder, ErrorKind::kUnsupported), "method awq");
}

TEST(Folder, refuses_two_tensors_that_map_to_one_name) {
  const path folder = scratch_dir("hf_double");
  Weights weights = tiny_weights();
  weights.ramp("language_model.norm.weight", {8});
  write_folder(folder, tiny_config(), weights);
  expect_contains(refusal(folder), "model.norm.weight occurs twice");
}

TEST(Folder, drops_what_is_not_the_text_model) {
  const path folder = scratch_dir("hf_drop");
  Weights weights = tiny_weights();
  weights.ramp("vision_tower.patch.weight", {3, 3}).add("model.visual.q", "F8_E4M3", {1}, "x");
  write_folder(folder, tiny_config(), weights);
  EXPECT_EQ(Folder::open(folder)->tensors().size(), 4U);
}

}  // namespace
}  // namespace cortiq::hf
