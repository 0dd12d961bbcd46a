#include "cortiq/hf/config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "cortiq/support/error.hpp"
#include "tiny_folder.hpp"

namespace cortiq::hf {
namespace {

using cmf::Json;
using test::tiny_config;

Json arch(const Json& config) { return arch_from_config(config, "config.json"); }

std::string refusal(const Json& config, ErrorKind kind) {
  try {
    static_cast<void>(arch(config));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

void expect_contains(const std::string& message, const std::string& piece) {
  EXPECT_NE(message.find(piece), std::string::npos) << message;
}

Json gemma3_config() {
  Json config = tiny_config();
  config["model_type"] = "gemma3_text";
  config["num_hidden_layers"] = 3;
  config["head_dim"] = 4;
  config.erase("tie_word_embeddings");
  return config;
}

TEST(Config, writes_the_keys_of_a_llama_in_the_order_of_the_format) {
  const Json a = arch(tiny_config());
  EXPECT_EQ(
      a.dump(),
      R"({"arch_name":"llama","hidden_size":8,"intermediate_size":12,"num_layers":1,"num_attention_heads":2,)"
      R"("num_kv_heads":1,"head_dim":4,"vocab_size":8,"layer_types":["FullAttention"],"rms_norm_eps":1e-05,)"
      R"("norm_style":"qwen","rope_theta":10000.0,"tie_word_embeddings":true,"partial_rotary_factor":1.0,)"
      R"("attention_sink":false,"max_position_embeddings":64,"linear_conv_kernel_dim":null,)"
      R"("linear_num_key_heads":null,"linear_num_value_heads":null})");
}

TEST(Config, derives_the_head_size_only_when_it_is_absent_or_null) {
  Json config = tiny_config();
  config["head_dim"] = nullptr;
  EXPECT_EQ(arch(config)["head_dim"], 4);
  config["head_dim"] = 32;
  EXPECT_EQ(arch(config)["head_dim"], 32);
  config["head_dim"] = nullptr;
  config["hidden_size"] = 9;
  expect_contains(refusal(config, ErrorKind::kInput), "hidden_size 9");
}

TEST(Config, names_the_missing_or_wrong_key) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "intermediate_size", "model_type"}) {
    Json config = tiny_config();
    config.erase(key);
    expect_contains(refusal(config, ErrorKind::kInput),
                    std::string("config.json: key ") + key + " is missing");
    config[key] = Json::array({-1});
    expect_contains(refusal(config, ErrorKind::kInput), key);
  }
  Json config = tiny_config();
  config["vocab_size"] = -5;
  expect_contains(refusal(config, ErrorKind::kInput), "key vocab_size is -5");
  config = tiny_config();
  config["intermediate_size"] = {12, 12};
  EXPECT_EQ(arch(config)["intermediate_size"], 12);
  config["intermediate_size"] = {12, 13};
  expect_contains(refusal(config, ErrorKind::kInput), "one width for all layers");
  config = tiny_config();
  config["num_key_value_heads"] = 3;
  expect_contains(refusal(config, ErrorKind::kInput), "no multiple");
}

TEST(Config, refuses_other_architectures_with_the_list_of_those_it_knows) {
  Json config = tiny_config();
  config["model_type"] = "gpt2";
  const std::string message = refusal(config, ErrorKind::kUnsupported);
  expect_contains(message, "\"gpt2\"");
  expect_contains(message, "llama, mistral");
  config = tiny_config();
  config["hidden_act"] = "relu2";
  expect_contains(refusal(config, ErrorKind::kUnsupported), "relu2");
}

TEST(Config, reads_linear_scaling_in_every_spelling) {
  std::vector<Json> configs(4, tiny_config());
  configs[0]["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  configs[1]["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4}};
  configs[2]["rope_parameters"] = {
      {"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5000.0}};
  configs[3]["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5000}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 100.0}}}};
  for (const Json& config : configs) {
    EXPECT_EQ(arch(config)["rope_freq_factors"], Json::array({4.0, 4.0}));
    EXPECT_EQ(arch(config)["max_position_embeddings"], 64);
  }
  EXPECT_EQ(arch(configs[2])["rope_theta"], 5000.0);
  EXPECT_EQ(arch(configs[3])["rope_theta"], 5000.0);
  EXPECT_EQ(arch(configs[3])["rope_local_base_freq"], 100.0);
}

// The values are those of transformers 5.24 (LlamaConfig.from_dict, Gemma3TextConfig.from_dict).
TEST(Config, rope_settings_that_contradict_each_other_are_read_as_transformers_does_and_named) {
  struct Case {
    Json keys;
    double theta;
    double factor;  ///< 0 = no scaling
    std::size_t warnings;
  };
  const Json linear4{{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 90000.0}};
  const Json linear2{{"rope_type", "linear"}, {"factor", 2.0}};
  const Json plain{{"rope_type", "default"}, {"rope_theta", 90000.0}};
  const Case cases[] = {
      {{{"rope_theta", 10000.0}, {"rope_parameters", plain}}, 90000, 0, 1},
      {{{"rope_theta", 90000.0}, {"rope_parameters", plain}}, 90000, 0, 0},
      {{{"rope_theta", 10000.0}, {"rope_scaling", linear4}}, 90000, 4, 1},
      {{{"rope_theta", 20000.0}, {"rope_scaling", linear2}, {"rope_parameters", linear4}}, 20000, 2, 2},
      {{{"rope_scaling", linear2}, {"rope_parameters", linear4}}, 10000, 2, 2},
      {{{"rope_scaling", {{"rope_type", "default"}}}, {"rope_parameters", linear4}}, 10000, 0, 2},
      {{{"rope_scaling", Json::object()}, {"rope_parameters", linear4}}, 90000, 4, 0},
      {{{"rope_theta", 90000.0}, {"rope_scaling", linear4}, {"rope_parameters", linear4}}, 90000, 4, 0}};
  for (const Case& one : cases) {
    Json config = tiny_config();
    config.update(one.keys);
    std::vector<std::string> warnings;
    const Json a = arch_from_config(config, "config.json", &warnings);
    EXPECT_EQ(a["rope_theta"], one.theta) << one.keys;
    EXPECT_EQ(a.contains("rope_freq_factors"), one.factor > 0) << one.keys;
    if (one.factor > 0) {
      EXPECT_EQ(a["rope_freq_factors"][0], one.factor) << one.keys;
    }
    EXPECT_EQ(warnings.size(), one.warnings) << one.keys << Json(warnings);
  }
  Json config = tiny_config();
  config.update(cases[0].keys);
  std::vector<std::string> warnings;
  static_cast<void>(arch_from_config(config, "config.json", &warnings));
  expect_contains(warnings.at(0), "rope_theta 90000 of config.json: rope_parameters: rope_theta is used");
  expect_contains(warnings.at(0), "config.json: rope_theta says 10000");
}

TEST(Config, rope_parameters_of_layer_types_come_before_the_keys_beside_them) {
  Json config = gemma3_config();
  config.update({{"rope_theta", 5.0},
                 {"rope_local_base_freq", 7.0},
                 {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                 {"rope_parameters",
                  {{"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 90000.0}}},
                   {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 80.0}}}}}});
  std::vector<std::string> warnings;
  const Json a = arch_from_config(config, "config.json", &warnings);
  EXPECT_EQ(a["rope_theta"], 90000.0);
  EXPECT_EQ(a["rope_local_base_freq"], 80.0);
  EXPECT_EQ(a["rope_freq_factors"][0], 8.0);
  EXPECT_EQ(warnings.size(), 3U) << Json(warnings);
}

TEST(Config, turns_llama3_scaling_into_frequency_factors) {
  Json config = tiny_config();
  config["head_dim"] = 32;
  config["rope_scaling"] = {{"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 128},
                            {"rope_type", "llama3"}};
  const Json factors = arch(config)["rope_freq_factors"];
  ASSERT_EQ(factors.size(), 16U);
  for (int i = 0; i < 16; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(10000.0, 2.0 * i / 32.0);
    double share = (128 / wavelength - 1) / 3;  // of the unscaled frequency
    share = std::min(1.0, std::max(0.0, share));
    EXPECT_NEAR(factors[static_cast<std::size_t>(i)].get<double>(), 1 / ((1 - share) / 8 + share),
                1e-12)
        << i;
  }
  EXPECT_EQ(factors.front(), 1.0);
  EXPECT_NEAR(factors.back().get<double>(), 8.0, 1e-12);
  Json moved = config;
  moved["rope_parameters"] = config["rope_scaling"];
  moved.erase("rope_scaling");
  EXPECT_EQ(arch(moved)["rope_freq_factors"], factors);
  config["rope_scaling"].erase("low_freq_factor");
  expect_contains(refusal(config, ErrorKind::kInput),
                  "rope_scaling: key low_freq_factor is missing");
}

TEST(Config, fills_the_yarn_record) {
  Json config = tiny_config();
  config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  const Json yarn = arch(config)["yarn"];
  EXPECT_EQ(yarn["factor"], 4.0);
  EXPECT_EQ(yarn["original_max_position_embeddings"], 32);
  EXPECT_EQ(yarn["beta_fast"], 32.0);
  EXPECT_NEAR(yarn["attention_factor"].get<double>(), 0.1 * std::log(4.0) + 1, 1e-15);
  config["rope_scaling"]["mscale"] = 1.0;
  config["rope_scaling"]["mscale_all_dim"] = 1.0;
  EXPECT_EQ(arch(config)["yarn"]["attention_factor"], 1.0);
}

TEST(Config, takes_default_and_dynamic_as_the_plain_table_and_refuses_an_invented_variant) {
  for (const char* variant : {"default", "dynamic", "mrope"}) {
    Json config = tiny_config();
    config["rope_scaling"] = {{"type", variant}, {"factor", 2.0}};
    const Json a = arch(config);
    EXPECT_FALSE(a.contains("rope_freq_factors")) << variant;
    EXPECT_EQ(a["rope_theta"], 10000.0);
  }
  for (const char* variant : {"spiral", "longrope"}) {
    Json config = tiny_config();
    config["rope_scaling"] = {{"rope_type", variant}};
    expect_contains(refusal(config, ErrorKind::kUnsupported),
                    std::string("\"") + variant + "\" is not handled");
  }
}

TEST(Config, drops_windows_that_no_layer_uses_and_keeps_those_of_tagged_layers) {
  Json config = tiny_config();
  config["model_type"] = "qwen2";
  config["sliding_window"] = 16;
  config["use_sliding_window"] = false;
  EXPECT_FALSE(arch(config).contains("sliding_window"));
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 1;
  config["num_hidden_layers"] = 3;
  EXPECT_EQ(arch(config)["layer_types"].dump(),
            R"(["FullAttention","SlidingAttention","SlidingAttention"])");
  EXPECT_EQ(arch(config)["sliding_window"], 16);
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(arch(config)["sliding_window"], 16);
  config["sliding_window"] = nullptr;
  expect_contains(refusal(config, ErrorKind::kInput), "sliding_window");
  config["layer_types"] = {"full_attention"};
  expect_contains(refusal(config, ErrorKind::kInput), "layer_types");
  config["layer_types"] = {"full_attention", "full_attention", "chunked_attention"};
  expect_contains(refusal(config, ErrorKind::kUnsupported), "chunked_attention");
}

TEST(Config, families_without_a_list_of_layers_use_their_window_in_all_of_them) {
  for (const char* type : {"mistral", "mixtral", "phi3"}) {
    Json config = tiny_config();
    config["model_type"] = type;
    if (std::string_view(type) == "mixtral") {
      config["num_local_experts"] = 4;
      config["num_experts_per_tok"] = 2;
    }
    EXPECT_FALSE(arch(config).contains("sliding_window")) << type;
    config["sliding_window"] = nullptr;
    EXPECT_FALSE(arch(config).contains("sliding_window")) << type;
    config["sliding_window"] = 16;
    EXPECT_EQ(arch(config)["sliding_window"], 16) << type;
    for (const auto& layer : arch(config)["layer_types"]) EXPECT_EQ(layer, "SlidingAttention") << type;
  }
}

TEST(Config, fills_the_defaults_of_gemma) {
  const Json a = arch(gemma3_config());
  EXPECT_EQ(a["norm_style"], "gemma");
  EXPECT_EQ(a["hidden_act"], "gelu_tanh");
  EXPECT_EQ(a["tie_word_embeddings"], true);
  EXPECT_EQ(a["embed_multiplier"].get<float>(), std::sqrt(8.0F));
  EXPECT_EQ(a["sliding_window"], 4096);
  EXPECT_EQ(a["sliding_window_pattern"], 6);
  EXPECT_EQ(a["rope_local_base_freq"], 10000.0);
  EXPECT_EQ(a["rope_theta"], 1e6);
  Json config = gemma3_config();
  config["sliding_window_pattern"] = 3;
  EXPECT_EQ(arch(config)["sliding_window_pattern"], 3);
  config["layer_types"] = {"sliding_attention", "sliding_attention", "full_attention"};
  config["sliding_window"] = 64;
  EXPECT_FALSE(arch(config).contains("sliding_window_pattern"));
  EXPECT_EQ(arch(config)["sliding_window"], 64);
  config["model_type"] = "gemma2";
  config.erase("layer_types");
  config.erase("sliding_window_pattern");
  config["attn_logit_softcapping"] = 50.0;
  EXPECT_EQ(arch(config)["sliding_window_pattern"], 2);
  EXPECT_EQ(arch(config)["attn_logit_softcapping"], 50.0);
  EXPECT_FALSE(arch(config).contains("rope_local_base_freq"));
}

TEST(Config, reads_the_text_part_of_a_multimodal_model) {
  Json config{{"model_type", "gemma3"}, {"text_config", gemma3_config()}};
  config["text_config"]["tie_word_embeddings"] = false;
  const Json a = arch(config);
  EXPECT_EQ(a["arch_name"], "gemma3");
  EXPECT_EQ(a["hidden_size"], 8);
  EXPECT_EQ(a["tie_word_embeddings"], false);
  const Json tokenizer =
      tokenizer_from_config(config, Json::object(), Json::object(), "", "folder");
  EXPECT_EQ(tokenizer.dump(), R"({"eos_token_ids":[2],"bos_token_id":1})");
  config["text_config"].erase("num_attention_heads");
  expect_contains(refusal(config, ErrorKind::kInput),
                  "text_config: key num_attention_heads is missing");
}

TEST(Config, maps_experts_of_mixtral_and_qwen) {
  Json config = tiny_config();
  config["model_type"] = "mixtral";
  config["num_local_experts"] = 8;
  EXPECT_EQ(
      arch(config)["moe"].dump(),
      R"({"num_experts":8,"top_k":2,"moe_intermediate_size":12,"norm_topk_prob":true,"router_sigmoid":false})");
  config["model_type"] = "qwen2_moe";
  config["num_experts"] = 6;
  config["num_experts_per_tok"] = 4;
  config["moe_intermediate_size"] = 5;
  config["shared_expert_intermediate_size"] = 7;
  EXPECT_EQ(arch(config)["moe"].dump(),
            R"({"num_experts":6,"top_k":4,"moe_intermediate_size":5,"norm_topk_prob":false,)"
            R"("shared_expert_intermediate_size":7,"router_sigmoid":false})");
  const Json written_before = arch(config);
  config["num_local_experts"] = config["num_experts"];
  config.erase("num_experts");
  EXPECT_EQ(arch(config), written_before) << "as transformers 5 writes it";
}

TEST(Config, maps_linear_attention) {
  Json config = tiny_config();
  config["model_type"] = "qwen3_next";
  config["num_hidden_layers"] = 4;
  config["linear_num_key_heads"] = 2;
  config["linear_num_value_heads"] = 4;
  config["linear_key_head_dim"] = 8;
  config["linear_value_head_dim"] = 16;
  config["linear_conv_kernel_dim"] = 4;
  config["mtp_num_hidden_layers"] = 1;
  const Json a = arch(config);
  EXPECT_EQ(a["layer_types"].dump(),
            R"(["LinearAttention","LinearAttention","LinearAttention","FullAttention"])");
  EXPECT_EQ(a["linear_core"].dump(),
            R"({"kind":"gated_delta_net","num_heads":4,"value_head_dim":16})");
  EXPECT_EQ(a["linear_key_head_dim"], 8);
  EXPECT_EQ(a["mtp"]["num_layers"], 1);
  EXPECT_EQ(a["norm_style"], "gemma");
  config.erase("linear_num_key_heads");
  expect_contains(refusal(config, ErrorKind::kInput), "linear_num_key_heads");
}

TEST(Config, collects_token_ids_and_the_chat_template) {
  const Json generation{{"eos_token_id", {7, 9}}};
  Json config = tiny_config();
  config["eod_token_id"] = 11;
  config["pad_token_id"] = 0;
  const Json tokenizer{{"chat_template", "from json"}};
  EXPECT_EQ(
      tokenizer_from_config(config, generation, tokenizer, "from file", "f").dump(),
      R"({"chat_template":"from file","eos_token_ids":[7,9,11],"bos_token_id":1,"pad_token_id":0})");
  EXPECT_EQ(tokenizer_from_config(config, Json::object(), tokenizer, " \n", "f")["chat_template"],
            "from json");
  EXPECT_THROW(
      static_cast<void>(tokenizer_from_config(config, generation, tokenizer, "\xff\xfe", "f")),
      Error);
  config["eos_token_id"] = "two";
  EXPECT_THROW(static_cast<void>(tokenizer_from_config(config, Json::object(), tokenizer, "", "f")),
               Error);
}

TEST(Config, refuses_text_that_is_no_object) {
  EXPECT_THROW(static_cast<void>(parse_object("[1]", "x")), Error);
  EXPECT_THROW(static_cast<void>(parse_object("{\"a\":", "x")), Error);
  EXPECT_THROW(static_cast<void>(parse_object(std::string(100000, '['), "x")), Error);
}

}  // namespace
}  // namespace cortiq::hf
