#include "cortiq/hf/names.hpp"

#include <gtest/gtest.h>

#include "cortiq/support/error.hpp"

namespace cortiq::hf {
namespace {

TEST(Names, maps_as_the_table_of_the_specification_says) {
  const std::pair<const char*, const char*> cases[] = {
      {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"lm_head.weight", "lm_head.weight"},
      {"language_model.lm_head.weight", "lm_head.weight"},
      {"model.language_model.lm_head.weight", "lm_head.weight"},
      {"language_model.model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.up_proj.weight"},
      {"model.language_model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.up_proj.weight"},
      {"language_model.norm.weight", "model.norm.weight"},
      {"mtp.fc.weight", "model.mtp.eh_proj.weight"},
      {"model.mtp.pre_fc_norm_embedding.weight", "model.mtp.enorm.weight"},
      {"mtp.pre_fc_norm_hidden.weight", "model.mtp.hnorm.weight"},
      {"model.language_model.mtp.layers.0.mlp.gate.weight", "model.mtp.layers.0.mlp.gate.weight"},
      {"model.layers.1.block_sparse_moe.gate.weight", "model.layers.1.mlp.gate.weight"},
      {"model.layers.1.block_sparse_moe.experts.7.w1.weight",
       "model.layers.1.mlp.experts.7.gate_proj.weight"},
      {"model.layers.1.block_sparse_moe.experts.7.w2.weight",
       "model.layers.1.mlp.experts.7.down_proj.weight"},
      {"model.layers.1.block_sparse_moe.experts.7.w3.weight",
       "model.layers.1.mlp.experts.7.up_proj.weight"},
      {"model.layers.1.block_sparse_moe.gate.e_score_correction_bias",
       "model.layers.1.mlp.expert_bias"},
      {"model.layers.1.block_sparse_moe.shared_experts.w1.weight",
       "model.layers.1.mlp.shared_expert.gate_proj.weight"},
      {"model.layers.1.mlp.shared_experts.up_proj.weight",
       "model.layers.1.mlp.shared_expert.up_proj.weight"},
      {"model.layers.1.mlp.experts.e_score_correction_bias", "model.layers.1.mlp.expert_bias"},
  };
  for (const auto& [from, to] : cases) EXPECT_EQ(map_name(from), to) << from;
  for (const char* name :
       {"model.visual.blocks.0.w", "visual.x", "vision_tower.x", "model.vision_tower.x",
        "multi_modal_projector.linear.weight", "model.layers.0.self_attn.rotary_emb.inv_freq",
        "language_model.model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    EXPECT_FALSE(map_name(name).has_value()) << name;
  }
}

/// Applies a part to a source whose element i has the value i.
std::vector<std::int64_t> content(const Part& part) {
  std::vector<std::int64_t> out;
  if (part.column_stride != 0) {
    for (std::int64_t r = 0; r < part.shape[0]; ++r) {
      for (std::int64_t c = 0; c < part.shape[1]; ++c) {
        out.push_back(part.runs[0].begin + c * part.column_stride + r);
      }
    }
    return out;
  }
  for (const Run& run : part.runs) {
    for (std::int64_t i = 0; i < run.count; ++i) out.push_back(run.begin + i);
  }
  return out;
}

TEST(Fused, leaves_plain_tensors_whole) {
  const auto parts = split_fused("model.norm.weight", {5}, {});
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].name, "model.norm.weight");
  EXPECT_EQ(content(parts[0]).size(), 5U);
}

TEST(Fused, cuts_query_key_value_rows) {
  FusedGeometry g;
  g.heads = 2;
  g.kv_heads = 1;
  g.head_dim = 2;
  const auto parts = split_fused("model.layers.0.self_attn.qkv_proj.weight", {8, 3}, g);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(parts[0].shape, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(parts[1].name, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(content(parts[1]), (std::vector<std::int64_t>{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(content(parts[2]).front(), 18);
  EXPECT_THROW(
      static_cast<void>(split_fused("model.layers.0.self_attn.qkv_proj.weight", {9, 3}, g)), Error);
}

TEST(Fused, cuts_gate_and_up_in_half) {
  const auto parts = split_fused("model.layers.0.mlp.gate_up_proj.weight", {4, 2}, {});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].name, "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(parts[1].name, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(content(parts[1]), (std::vector<std::int64_t>{4, 5, 6, 7}));
  EXPECT_THROW(static_cast<void>(split_fused("model.layers.0.mlp.gate_up_proj.weight", {5, 2}, {})),
               Error);
}

TEST(Fused, cuts_stacked_experts_in_both_layouts) {
  FusedGeometry g;
  g.expert_width = 2;
  // Two experts, hidden 3: [E, 2m, H] = [2, 4, 3], and [E, H, 2m] = [2, 3, 4].
  const auto rows = split_fused("model.layers.0.mlp.experts.gate_up_proj", {2, 4, 3}, g);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[3].name, "model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(content(rows[3]), (std::vector<std::int64_t>{18, 19, 20, 21, 22, 23}));
  const auto columns = split_fused("model.layers.0.mlp.experts.gate_up_proj", {2, 3, 4}, g);
  EXPECT_EQ(columns[3].shape, (std::vector<std::int64_t>{2, 3}));
  // Expert 1 begins at 12; up = columns 2 and 3.
  EXPECT_EQ(content(columns[3]), (std::vector<std::int64_t>{14, 18, 22, 15, 19, 23}));
  const auto down = split_fused("model.layers.0.mlp.experts.down_proj", {2, 3, 2}, g);
  EXPECT_EQ(down[1].shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(content(down[1]), (std::vector<std::int64_t>{6, 7, 8, 9, 10, 11}));
  const auto down_columns = split_fused("model.layers.0.mlp.experts.down_proj", {2, 2, 3}, g);
  EXPECT_EQ(content(down_columns[1]), (std::vector<std::int64_t>{6, 9, 7, 10, 8, 11}));
  EXPECT_THROW(static_cast<void>(split_fused("model.layers.0.mlp.experts.down_proj", {2, 5, 5}, g)),
               Error);
}

TEST(Fused, orders_linear_attention_rows_by_kind_then_group) {
  FusedGeometry g;
  g.linear_key_heads = 2;
  g.linear_value_heads = 4;
  g.linear_key_dim = 1;
  g.linear_value_dim = 1;
  // Group of 6 rows: q, k, v v, z z. One column, so row numbers are element numbers.
  const auto parts = split_fused("model.layers.0.linear_attn.in_proj_qkvz.weight", {12, 1}, g);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(content(parts[0]), (std::vector<std::int64_t>{0, 6, 1, 7, 2, 3, 8, 9}));
  EXPECT_EQ(content(parts[1]), (std::vector<std::int64_t>{4, 5, 10, 11}));
  EXPECT_EQ(parts[0].shape, (std::vector<std::int64_t>{8, 1}));
  const auto ba = split_fused("model.layers.0.linear_attn.in_proj_ba.weight", {8, 1}, g);
  EXPECT_EQ(ba[0].name, "model.layers.0.linear_attn.in_proj_b.weight");
  EXPECT_EQ(content(ba[0]), (std::vector<std::int64_t>{0, 1, 4, 5}));
  EXPECT_EQ(content(ba[1]), (std::vector<std::int64_t>{2, 3, 6, 7}));
}

}  // namespace
}  // namespace cortiq::hf
