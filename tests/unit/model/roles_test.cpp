#include "cortiq/model/roles.hpp"

#include <gtest/gtest.h>

namespace cortiq::model {
namespace {

TEST(Roles, layers_come_from_the_number_behind_layers) {
  EXPECT_EQ(layer_in_name("model.layers.12.mlp.down_proj.weight"), 12);
  EXPECT_EQ(layer_in_name("layers.0.x"), 0);
  EXPECT_EQ(layer_in_name("lm_head.weight"), std::nullopt);
  EXPECT_EQ(layer_in_name("model.layers.x.weight"), std::nullopt);
}

TEST(Roles, only_matrices_of_routed_experts_have_an_expert_place) {
  const auto place = expert_place("model.layers.3.mlp.experts.11.down_proj.weight");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->layer, 3);
  EXPECT_EQ(place->expert, 11);
  EXPECT_TRUE(place->down);
  EXPECT_FALSE(expert_place("model.layers.3.mlp.experts.1.up_proj.weight")->down);
  EXPECT_FALSE(expert_place("model.layers.3.mlp.shared_expert.up_proj.weight").has_value());
  EXPECT_FALSE(expert_place("model.layers.3.mlp.down_proj.weight").has_value());
}

}  // namespace
}  // namespace cortiq::model
