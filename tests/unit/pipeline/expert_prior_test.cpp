// The pooled Hessian that experts with few rows get.
#include "../../../src/pipeline/expert_prior.hpp"

#include <gtest/gtest.h>

namespace cortiq::pipeline::test {
namespace {

GroupPlan expert_group(std::int64_t layer, std::int64_t expert, bool down = false) {
  GroupPlan group;
  group.width = 2;
  group.place = model::ExpertPlace{layer, expert, down};
  return group;
}

std::shared_ptr<calib::Hessian> hessian(double a, double b, double c, std::int64_t count) {
  auto h = std::make_shared<calib::Hessian>(2);
  h->view()(0, 0) = a;
  h->view()(0, 1) = b;
  h->view()(1, 1) = c;
  h->sum_squares = {a, c};
  h->count = count;
  return h;
}

class Priors : public testing::Test {
 protected:
  void build(ExpertPriors& priors, std::size_t first, std::size_t last) {
    priors.build(
        groups_, first, last, [&](std::size_t i) { return hessians_[i]->count; },
        [&](std::size_t i) { return hessians_[i]; }, pool_);
  }

  Pool pool_{2};
  std::vector<GroupPlan> groups_{expert_group(1, 0), expert_group(1, 1), expert_group(1, 1, true),
                                 expert_group(2, 0), GroupPlan{}};
  std::vector<std::shared_ptr<calib::Hessian>> hessians_{hessian(60, 6, 12, 58),
                                                         hessian(4, -2, 4, 2), hessian(1, 1, 1, 40),
                                                         hessian(9, 9, 9, 90), hessian(1, 0, 1, 1)};
};

TEST_F(Priors, CountAsTheirRows) {
  ExpertPriors priors(32, 15);
  build(priors, 0, groups_.size());
  // The sum over the experts of the layer is [64, 4; 16] of 60 rows; a quarter of it is 15 rows.
  EXPECT_EQ(priors.apply(groups_[1], *hessians_[1], pool_), 15);
  EXPECT_EQ(hessians_[1]->view()(0, 0), 4 + 16);
  EXPECT_EQ(hessians_[1]->view()(0, 1), -2 + 1);
  EXPECT_EQ(hessians_[1]->view()(1, 1), 4 + 4);
  EXPECT_EQ(hessians_[1]->sum_squares, (std::vector<double>{20, 8}));
  EXPECT_EQ(hessians_[1]->count, 2);
}

TEST_F(Priors, LeaveOtherGroupsAlone) {
  ExpertPriors priors(32, 15);
  build(priors, 0, groups_.size());
  EXPECT_EQ(priors.apply(groups_[0], *hessians_[0], pool_), 0);
  EXPECT_EQ(priors.apply(groups_[2], *hessians_[2], pool_), 0);
  EXPECT_EQ(priors.apply(groups_[4], *hessians_[4], pool_), 0);
  EXPECT_EQ(hessians_[0]->view()(0, 0), 60);
  EXPECT_FALSE(priors.starved(groups_[4], 1));
}

TEST_F(Priors, ReachBeyondTheGroupsTheyAreMadeFor) {
  ExpertPriors priors(32, 60);
  build(priors, 1, 2);
  EXPECT_EQ(priors.apply(groups_[1], *hessians_[1], pool_), 60);
  EXPECT_EQ(hessians_[1]->view()(0, 0), 4 + 64);
}

TEST_F(Priors, OfZeroRowsAreNone) {
  ExpertPriors priors(32, 0);
  build(priors, 0, groups_.size());
  EXPECT_EQ(priors.apply(groups_[1], *hessians_[1], pool_), 0);
  EXPECT_TRUE(priors.starved(groups_[1], 2));
}

TEST_F(Priors, NeedRowsSomewhereInTheLayer) {
  hessians_[0]->count = 0;
  hessians_[1]->count = 0;
  ExpertPriors priors(32, 15);
  build(priors, 0, groups_.size());
  EXPECT_EQ(priors.apply(groups_[1], *hessians_[1], pool_), 0);
}

}  // namespace
}  // namespace cortiq::pipeline::test
