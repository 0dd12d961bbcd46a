#include "scope.hpp"

#include <algorithm>

namespace cortiq::calib::jinja {

const Value* Scope::find(std::string_view name) const {
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    if (const Value* value = level->find(name)) return value;
  }
  return nullptr;
}

std::vector<Dict> Scope::enter_macro() {
  if (++depth > kMostDepth) refuse("macros call each other more than {} deep", kMostDepth);
  std::vector<Dict> saved(levels_.begin() + 1, levels_.end());
  levels_.resize(1);
  levels_.emplace_back();
  return saved;
}

void Scope::leave_macro(std::vector<Dict> saved) {
  --depth;
  levels_.resize(1);
  std::move(saved.begin(), saved.end(), std::back_inserter(levels_));
}

void Scope::step() {
  if (++steps_ > kMostSteps || output.size() > kMostOutputBytes)
    refuse("the template runs on without an end");
}

}  // namespace cortiq::calib::jinja
