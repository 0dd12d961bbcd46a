// What a sum of Hessian caches may call itself.
#include <algorithm>
#include <map>

#include "cortiq/calib/hessian_merge.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

/// The caches of one calibration run: the whole of it, or parts of it.
struct Run {
  CacheIdentity sum;
  std::map<std::int64_t, std::string> parts;  // number -> cache
  std::string first;                          // a cache of it
};

bool same_text(const CacheIdentity& a, const CacheIdentity& b) {
  return std::equal(a.sources.begin(), a.sources.end(), b.sources.begin(), b.sources.end(),
                    [](const SourceReport& x, const SourceReport& y) {
                      return x.sha256 == y.sha256 && x.tokens_used == y.tokens_used;
                    });
}

/// Empty, or in what they differ beyond their texts.
std::string setting_differences(const CacheIdentity& first, const CacheIdentity& other) {
  CacheIdentity same = other;
  same.sources = first.sources;
  same.tokens = first.tokens;
  same.parts = first.parts;
  same.part_count = first.part_count;
  return fmt::format("{}", fmt::join(identity_differences(first, same), "; "));
}

/// Empty, or why the cache cannot join the run.
std::string join(Run& run, const CacheIdentity& identity, const std::string& name) {
  if (identity.part_count == 1 || identity.part_count != run.sum.part_count) {
    return fmt::format("{} and {} are of the same text, which would count twice", run.first, name);
  }
  for (const std::int64_t part : identity.parts) {
    const auto [place, added] = run.parts.emplace(part, name);
    if (!added) {
      return fmt::format("part {} of {} is in {} and in {}", part, identity.part_count,
                         place->second, name);
    }
  }
  run.sum.tokens += identity.tokens;
  return {};
}

Run make_run(const CacheIdentity& identity, const std::string& name) {
  Run run{identity, {}, name};
  for (const std::int64_t part : identity.parts) run.parts.emplace(part, name);
  return run;
}

/// Parts that make the whole are the whole.
void settle_parts(Run& run) {
  run.sum.parts.clear();
  if (static_cast<std::int64_t>(run.parts.size()) == run.sum.part_count) {
    run.sum.part_count = 1;
    return;
  }
  for (const auto& [number, name] : run.parts) run.sum.parts.push_back(number);
}

MergedIdentity join_runs(const std::vector<Run>& runs) {
  MergedIdentity merged{runs.front().sum, {}};
  if (runs.size() == 1) return merged;
  merged.identity->tokens = 0;
  merged.identity->sources.clear();
  for (const Run& run : runs) {
    if (run.sum.part_count > 1) {
      return {std::nullopt,
              fmt::format("{} is of {} of {} parts of its run; merge all parts of a run before it "
                          "joins another one",
                          run.first, run.sum.parts.size(), run.sum.part_count)};
    }
    merged.identity->tokens += run.sum.tokens;
    merged.identity->sources.insert(merged.identity->sources.end(), run.sum.sources.begin(),
                                    run.sum.sources.end());
  }
  return merged;
}

}  // namespace

MergedIdentity merge_identities(const std::vector<std::optional<CacheIdentity>>& identities,
                                const std::vector<std::string>& names) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    if (!identities[i]) {
      return {std::nullopt, names[i] +
                                ": has no identity file beside it, so it is not known which model "
                                "and text it belongs to"};
    }
    const CacheIdentity& identity = *identities[i];
    const std::string differences = setting_differences(*identities.front(), identity);
    if (!differences.empty()) {
      return {std::nullopt,
              fmt::format("{} and {} differ: {}", names.front(), names[i], differences)};
    }
    const auto run = std::find_if(runs.begin(), runs.end(),
                                  [&](const Run& r) { return same_text(r.sum, identity); });
    if (run == runs.end()) {
      runs.push_back(make_run(identity, names[i]));
      continue;
    }
    std::string obstacle = join(*run, identity, names[i]);
    if (!obstacle.empty()) return {std::nullopt, std::move(obstacle)};
  }
  for (Run& run : runs) settle_parts(run);
  return join_runs(runs);
}

}  // namespace cortiq::calib
