// expert_prior.hpp: a Hessian for experts that few calibration rows reach. Theirs alone has hardly
// any rank; so the sum over all experts of the layer, scaled to a number of rows, is added to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cortiq/calib/hessian.hpp"
#include "cortiq/pipeline/plan.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::pipeline {

/// to += scale * from: upper triangle and sums of squares; the row count stays.
void add_scaled(const calib::Hessian& from, double scale, calib::Hessian& to, Pool& pool);

class ExpertPriors {
 public:
  /// @param min_rows  experts with fewer rows get the prior
  /// @param rows      that the prior counts for; 0 = no prior
  ExpertPriors(std::int64_t min_rows, std::int64_t rows) : min_rows_(min_rows), rows_(rows) {}

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Whether the group belongs to an expert with too few rows.
  [[nodiscard]] bool starved(const GroupPlan& group, std::int64_t count) const {
    return group.place && count < min_rows_;
  }

  using Count = std::function<std::int64_t(std::size_t group)>;
  using Read = std::function<std::shared_ptr<const calib::Hessian>(std::size_t group)>;
  /// Sums what groups [first, last) will ask for, over all of `groups`, and drops older sums. In
  /// the order of the experts, so the bits do not depend on the order of the groups.
  void build(const std::vector<GroupPlan>& groups, std::size_t first, std::size_t last,
             const Count& count, const Read& read, Pool& pool);
  /// Adds the prior to the Hessian of a starved expert; its row count stays. Returns the rows that
  /// the prior counts for, 0 where there is none. Thread safe between two builds.
  std::int64_t apply(const GroupPlan& group, calib::Hessian& hessian, Pool& pool) const;

 private:
  using Key = std::pair<std::int64_t, bool>;  // layer, down
  std::int64_t min_rows_;
  std::int64_t rows_;
  std::map<Key, std::unique_ptr<calib::Hessian>> sums_;
};

}  // namespace cortiq::pipeline
