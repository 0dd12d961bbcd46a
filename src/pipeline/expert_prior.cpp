#include "expert_prior.hpp"

#include <algorithm>

namespace cortiq::pipeline {
namespace {

constexpr std::int64_t kGrainRows = 16;

}  // namespace

void add_scaled(const calib::Hessian& from, double scale, calib::Hessian& to, Pool& pool) {
  const ConstMatrixView<double> x = from.view();
  const MatrixView<double> y = to.view();
  pool.for_ranges(from.n(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = r; c < x.cols(); ++c) y(r, c) += scale * x(r, c);
    }
  });
  to.sum_squares.resize(static_cast<std::size_t>(from.n()));
  for (std::size_t i = 0; i < from.sum_squares.size(); ++i)
    to.sum_squares[i] += scale * from.sum_squares[i];
}

void ExpertPriors::build(const std::vector<GroupPlan>& groups, std::size_t first, std::size_t last,
                         const Count& count, const Read& read, Pool& pool) {
  sums_.clear();
  if (rows_ == 0) return;
  for (std::size_t i = first; i < last; ++i) {
    if (!starved(groups[i], count(i))) continue;
    sums_.try_emplace({groups[i].place->layer, groups[i].place->down},
                      std::make_unique<calib::Hessian>(groups[i].width));
  }
  for (auto& [key, sum] : sums_) {
    std::vector<std::pair<std::int64_t, std::size_t>> members;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto& place = groups[i].place;
      const bool fits = place && place->layer == key.first && place->down == key.second &&
                        groups[i].width == sum->n();
      if (fits && count(i) > 0) members.emplace_back(place->expert, i);
    }
    std::sort(members.begin(), members.end());
    for (const auto& [expert, i] : members) {
      const auto hessian = read(i);
      add_scaled(*hessian, 1.0, *sum, pool);
      sum->count += hessian->count;
    }
  }
}

std::int64_t ExpertPriors::apply(const GroupPlan& group, calib::Hessian& hessian,
                                 Pool& pool) const {
  if (!starved(group, hessian.count)) return 0;
  const auto sum = sums_.find({group.place->layer, group.place->down});
  if (sum == sums_.end() || sum->second->count == 0 || sum->second->n() != hessian.n()) return 0;
  const double scale = static_cast<double>(rows_) / static_cast<double>(sum->second->count);
  add_scaled(*sum->second, scale, hessian, pool);
  return rows_;
}

}  // namespace cortiq::pipeline
