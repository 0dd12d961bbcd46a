// Every model of the zoo, and of tests/data/oracles, against the reference outputs beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "cortiq/hf/folder.hpp"
#include "cortiq/model/score.hpp"
#include "cortiq/support/file.hpp"
#include "data_dirs.hpp"
#include "read_array.hpp"

namespace cortiq::model::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kLogitTolerance = 5e-3;       // absolute, issue's figure for f32 oracles
constexpr double kHiddenTolerance = 1e-4;      // of the largest value of the row
constexpr double kPerplexityTolerance = 5e-4;  // relative
constexpr double kHessianTolerance = 1e-4;     // relative Frobenius norm

fs::path oracle_dir() { return cortiq::test::data_dir() / "oracles"; }

void add_models(const fs::path& from, std::vector<std::string>& folders) {
  if (!fs::is_directory(from)) return;
  for (const auto& entry : fs::directory_iterator(from)) {
    if (fs::exists(entry.path() / "ref/ref.json")) folders.push_back(entry.path().string());
  }
}

/// Folders of models with a reference.
std::vector<std::string> reference_models() {
  std::vector<std::string> folders;
  add_models(cortiq::test::zoo_dir(), folders);
  add_models(oracle_dir(), folders);
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// The text of the perplexity.
fs::path text_of(const fs::path& model) {
  const bool bundled = model.parent_path() == oracle_dir();
  return (bundled ? cortiq::test::data_dir() : cortiq::test::zoo_dir()) / "text/eval.txt";
}

/// Layer, role, expert.
using Place = std::tuple<std::int64_t, Role, std::int64_t>;

/// Sums x x^T in f64 for the tensors that the zoo has Hessians of.
class HessianObserver final : public LinearObserver {
 public:
  explicit HessianObserver(std::set<Place> wanted) : wanted_(std::move(wanted)) {}
  bool wants(std::int64_t layer, Role role, std::int64_t expert) const override {
    return wanted_.count({layer, role, expert}) > 0;
  }
  void observe(const LinearInput& input) override {
    const auto n = static_cast<std::size_t>(input.x.cols());
    std::vector<double>& sum = sums[{input.layer, input.role, input.expert}];
    sum.resize(n * (n + 1) / 2);
    for (std::int64_t r = 0; r < input.x.rows(); ++r) {
      const float* x = input.x.row(r);
      double* h = sum.data();
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = i; j < n; ++j)
          *h++ += static_cast<double>(x[i]) * static_cast<double>(x[j]);
      }
    }
    counts[{input.layer, input.role, input.expert}] += input.x.rows();
  }
  std::map<Place, std::vector<double>> sums;
  std::map<Place, std::int64_t> counts;

 private:
  std::set<Place> wanted_;
};

class Zoo : public testing::TestWithParam<std::string> {
 protected:
  /// False, with the test skipped, for a family without a forward pass.
  bool open() {
    folder_ = GetParam();
    try {
      source_ = hf::Folder::open(folder_, {cmf::DType::kF32});
      forward_ = std::make_unique<Forward>(*source_, pool_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      refusal_ = error.what();
      return false;
    }
    ref_ = json::parse(read_text_file(folder_ / "ref/ref.json"));
    return true;
  }

  Windows reference_windows() const {
    const auto ids = cortiq::test::read_array<TokenId>(folder_ / "ref/ids.i32");
    Windows windows;
    const auto count = ref_["ids"]["shape"][0].get<std::size_t>();
    const std::size_t length = ids.size() / count;
    for (std::size_t w = 0; w < count; ++w) windows.add(std::span(ids).subspan(w * length, length));
    return windows;
  }

  void check_hidden(ConstMatrixView<float> states, std::size_t row) const {
    const auto want = cortiq::test::read_array<float>(folder_ / "ref/hidden.f32");
    const json& positions = ref_["hidden"]["positions"];
    const auto width = static_cast<std::size_t>(states.cols());
    for (std::size_t p = 0; p < positions.size(); ++p) {
      const float* expected = want.data() + (row * positions.size() + p) * width;
      const float* got = states.row(positions[p].get<std::int64_t>());
      double largest = 0;
      double worst = 0;
      for (std::size_t i = 0; i < width; ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
        worst = std::max(worst,
                         std::fabs(static_cast<double>(expected[i]) - static_cast<double>(got[i])));
      }
      EXPECT_LE(worst, kHiddenTolerance * largest)
          << "hidden row " << row << ", position " << positions[p];
    }
  }

  void check_logits(const std::vector<float>& logits, const Windows& windows) const {
    const auto want = cortiq::test::read_array<float>(folder_ / "ref/logits.f32");
    const auto vocab = static_cast<std::size_t>(forward_->arch().vocab);
    const json& positions = ref_["logits"]["positions"];
    double worst = 0;
    for (std::size_t w = 0; w < static_cast<std::size_t>(windows.count()); ++w) {
      for (std::size_t p = 0; p < positions.size(); ++p) {
        const auto token =
            static_cast<std::size_t>(windows.offsets[w]) + positions[p].get<std::size_t>();
        for (std::size_t v = 0; v < vocab; ++v) {
          const auto expected = static_cast<double>(want[(w * positions.size() + p) * vocab + v]);
          worst =
              std::max(worst, std::fabs(expected - static_cast<double>(logits[token * vocab + v])));
        }
      }
    }
    RecordProperty("worst_logit_difference", std::to_string(worst));
    std::printf("%s: largest logit difference %.2e\n", GetParam().c_str(), worst);
    EXPECT_LE(worst, kLogitTolerance);
  }

  void check_perplexity(const json& want, TokenId bos) const {
    const Tokenizer tokenizer =
        Tokenizer::parse(source_->vocab(), (folder_ / "tokenizer.json").string());
    const auto ids = tokenizer.encode(read_text_file(text_of(folder_)));
    const ScoredWindows scored = scored_windows(ids, ref_["window_len"].get<std::int64_t>(),
                                                ref_["window_len"].get<std::int64_t>(), bos);
    EXPECT_EQ(scored.windows.count(), want["windows"].get<std::int64_t>());
    EXPECT_EQ(scored.scored_tokens(), want["scored_tokens"].get<std::int64_t>());
    const Perplexity got = perplexity(*forward_, scored);
    EXPECT_EQ(got.tokens, want["scored_tokens"].get<std::int64_t>());
    EXPECT_NEAR(got.perplexity / want["ppl"].get<double>(), 1.0, kPerplexityTolerance);
    std::printf("%s: perplexity %.4f, reference %.4f\n", GetParam().c_str(), got.perplexity,
                want["ppl"].get<double>());
  }

  Pool pool_{2};
  fs::path folder_;
  std::unique_ptr<hf::Folder> source_;
  std::unique_ptr<Forward> forward_;
  std::string refusal_;
  json ref_;
};

TEST_P(Zoo, LogitsAndHiddenStatesMatchReference) {
  if (!open()) GTEST_SKIP() << refusal_;
  const Windows windows = reference_windows();
  HiddenStates states = forward_->embed(windows);
  check_hidden(states.view(), 0);
  for (std::int64_t layer = 0; layer < forward_->arch().layers; ++layer) {
    forward_->run_layer(layer, windows, states, nullptr);
    check_hidden(states.view(), static_cast<std::size_t>(layer) + 1);
  }
  std::vector<float> normed(static_cast<std::size_t>(windows.tokens() * forward_->arch().hidden));
  const MatrixView<float> view(normed.data(), windows.tokens(), forward_->arch().hidden);
  forward_->head().norm(states.view(), view);
  check_hidden(view, static_cast<std::size_t>(forward_->arch().layers) + 1);
  std::vector<float> logits;
  forward_->run_head(windows, states, nullptr, [&](std::int64_t, ConstMatrixView<float> rows) {
    for (std::int64_t r = 0; r < rows.rows(); ++r)
      logits.insert(logits.end(), rows.row(r), rows.row(r) + rows.cols());
  });
  check_logits(logits, windows);
}

TEST_P(Zoo, LossOfEachTokenMatchesReference) {
  if (!open()) GTEST_SKIP() << refusal_;
  const auto want = cortiq::test::read_array<float>(folder_ / "ref/nll.f32");
  ScoredWindows scored{reference_windows(), {}};
  scored.first_scored.assign(static_cast<std::size_t>(scored.windows.count()), 1);
  const Perplexity got = perplexity(*forward_, scored);
  ASSERT_EQ(want.size(), got.nll.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(want[i], got.nll[i], kLogitTolerance) << "token " << i;
}

TEST_P(Zoo, PerplexityMatchesReference) {
  if (!open()) GTEST_SKIP() << refusal_;
  check_perplexity(ref_["eval"], -1);
}

TEST_P(Zoo, PerplexityWithBosMatchesReference) {
  if (!open()) GTEST_SKIP() << refusal_;
  if (!ref_.contains("eval_bos") || ref_["eval_bos"].is_null())
    GTEST_SKIP() << "the tokenizer adds no BOS";
  ASSERT_TRUE(forward_->arch().bos_token.has_value());
  check_perplexity(ref_["eval_bos"], static_cast<TokenId>(*forward_->arch().bos_token));
}

TEST_P(Zoo, HessiansMatchReference) {
  if (!open()) GTEST_SKIP() << refusal_;
  if (!fs::exists(folder_ / "ref/hessians.json")) GTEST_SKIP() << "no reference Hessians";
  const json items = json::parse(read_text_file(folder_ / "ref/hessians.json"))["items"];
  std::map<std::string, Place> places;
  for (const InputGroup& group : input_groups(forward_->arch(), *source_)) {
    for (const std::string& tensor : group.tensors)
      places[tensor] = {group.layer, group.role, group.expert};
  }
  std::set<Place> wanted;
  for (const json& item : items)
    wanted.insert(places.at(item["name"].get<std::string>() + ".weight"));
  HessianObserver observer(wanted);
  const Windows windows = reference_windows();
  HiddenStates states = forward_->embed(windows);
  for (std::int64_t layer = 0; layer < forward_->arch().layers; ++layer) {
    forward_->run_layer(layer, windows, states, &observer);
  }
  double worst = 0;
  for (const json& item : items) {
    const auto place = places.at(item["name"].get<std::string>() + ".weight");
    const auto want = cortiq::test::read_array<double>(folder_ / "ref" / item["file"].get<std::string>());
    std::vector<double>& got = observer.sums[place];
    got.resize(want.size());  // an expert without rows was never called
    ASSERT_EQ(want.size(), got.size()) << item["name"];
    EXPECT_EQ(observer.counts[place], item["count"].get<std::int64_t>());
    double norm = 0;
    double difference = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      norm += want[i] * want[i];
      difference += (want[i] - got[i]) * (want[i] - got[i]);
    }
    EXPECT_LE(std::sqrt(difference), kHessianTolerance * std::sqrt(norm)) << item["name"];
    if (norm > 0) worst = std::max(worst, std::sqrt(difference / norm));
  }
  std::printf("%s: largest relative Hessian difference %.2e\n", GetParam().c_str(), worst);
}

TEST_P(Zoo, RowsPerExpertMatchReference) {
  if (!open()) GTEST_SKIP() << refusal_;
  if (!ref_.contains("expert_counts_two_windows")) GTEST_SKIP() << "no experts";
  std::set<Place> wanted;
  for (const InputGroup& group : input_groups(forward_->arch(), *source_)) {
    if (group.role == Role::kExpertDown) wanted.insert({group.layer, group.role, group.expert});
  }
  HessianObserver observer(wanted);
  const Windows windows = reference_windows();
  HiddenStates states = forward_->embed(windows);
  for (std::int64_t layer = 0; layer < forward_->arch().layers; ++layer)
    forward_->run_layer(layer, windows, states, &observer);
  std::size_t seen = 0;
  for (const auto& [layer, counts] : ref_["expert_counts_two_windows"].items()) {
    for (std::size_t e = 0; e < counts.size(); ++e, ++seen) {
      const Place place{std::stoll(layer), Role::kExpertDown, static_cast<std::int64_t>(e)};
      EXPECT_EQ(wanted.count(place), 1U);
      EXPECT_EQ(observer.counts[place], counts[e].get<std::int64_t>()) << layer << ", " << e;
    }
  }
  EXPECT_EQ(seen, wanted.size());
}

std::string model_name(const testing::TestParamInfo<std::string>& model) {
  const fs::path folder = model.param;
  return (folder.parent_path() == oracle_dir() ? "oracle_" : "") + folder.filename().string();
}
INSTANTIATE_TEST_SUITE_P(Models, Zoo, testing::ValuesIn(reference_models()), model_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Zoo);

TEST(ZooFolder, IsThere) {
  if (!fs::is_directory(cortiq::test::zoo_dir()))
    GTEST_SKIP() << "no folder " << cortiq::test::zoo_dir();
}

TEST(OracleFolder, HoldsTheFamiliesThatTheZooLacks) {
  for (const char* name : {"mistral", "mixtral", "phi3", "qwen3_next", "llama_linear", "llama_yarn",
                           "llama_dynamic"})
    EXPECT_TRUE(fs::exists(oracle_dir() / name / "ref/ref.json")) << name;
}

}  // namespace
}  // namespace cortiq::model::test
