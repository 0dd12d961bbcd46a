// The Hessians of a capture against those that Hugging Face transformers gives: whole triangles
// (hessians.json of the zoo) or products with a few columns of signs (hessian_probes.json of
// tests/data/oracles, made by tools/make_oracles.py). Folders are discovered.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cortiq/calib/hessian.hpp"
#include "cortiq/hf/folder.hpp"
#include "cortiq/model/forward.hpp"
#include "cortiq/support/file.hpp"
#include "data_dirs.hpp"
#include "read_array.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using model::InputGroup;
using nlohmann::json;

/// Relative Frobenius norm. Two f32 forward passes that sum in different orders; measured with plain
/// code, AVX2 and AVX-512: 4e-7 to 8e-7, qwen3_next 1.5e-6 to 2.2e-6.
constexpr double kTolerance = 4e-6;

/// Layer, role, expert.
using Place = std::tuple<std::int64_t, std::string, std::int64_t>;
using Hessians = std::map<Place, std::unique_ptr<Hessian>>;

std::vector<std::string> models_with(const fs::path& folder, const char* file) {
  std::vector<std::string> models;
  if (!fs::is_directory(folder)) return models;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "ref" / file)) models.push_back(entry.path().string());
  }
  std::sort(models.begin(), models.end());
  return models;
}

Place place_of(const InputGroup& group) {
  return {group.layer, std::string(model::role_name(group.role)), group.expert};
}

class CaptureReference : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = GetParam();
    const auto source = hf::Folder::open(folder_, {cmf::DType::kF32});
    const model::Forward forward(*source, pool_);
    for (InputGroup& group : model::input_groups(forward.arch(), *source)) {
      if (group.layer < forward.arch().layers) groups_.push_back(std::move(group));
    }
    const json ref = json::parse(read_text_file(folder_ / "ref/ref.json"));
    const auto ids = cortiq::test::read_array<model::TokenId>(folder_ / "ref/ids.i32");
    const auto length = ref["ids"]["shape"][1].get<std::size_t>();
    model::Windows windows;
    for (std::size_t at = 0; at < ids.size(); at += length)
      windows.add(std::span(ids).subspan(at, length));
    Capture capture(groups_, pool_);
    model::HiddenStates states = forward.embed(windows);
    for (std::int64_t layer = 0; layer < forward.arch().layers; ++layer)
      forward.run_layer(layer, windows, states, &capture);
    for (std::size_t i = 0; i < groups_.size(); ++i)
      hessians_[place_of(groups_[i])] = capture.take(i);
  }
  void TearDown() override {
    std::printf("%s: largest relative Hessian difference %.2e\n", GetParam().c_str(), worst_);
  }
  void expect_close(double difference, double norm, const std::string& what) {
    EXPECT_LE(difference, kTolerance * norm) << what;
    if (norm > 0) worst_ = std::max(worst_, difference / norm);
  }

  Pool pool_{2};
  fs::path folder_;
  std::vector<InputGroup> groups_;
  Hessians hessians_;
  double worst_ = 0;
};

class WholeHessians : public CaptureReference {};

TEST_P(WholeHessians, are_those_of_the_reference) {
  const json items = json::parse(read_text_file(folder_ / "ref/hessians.json"))["items"];
  std::map<std::string, Place> places;
  for (const InputGroup& group : groups_) {
    for (const std::string& tensor : group.tensors) places[tensor] = place_of(group);
  }
  ASSERT_FALSE(items.empty());
  for (const json& item : items) {
    const std::string name = item["name"];
    const Hessian& got = *hessians_.at(places.at(name + ".weight"));
    EXPECT_EQ(got.count, item["count"].get<std::int64_t>()) << name;
    const auto want = cortiq::test::read_array<double>(folder_ / "ref" / item["file"].get<std::string>());
    const auto n = static_cast<std::size_t>(got.n());
    ASSERT_EQ(want.size(), n * (n + 1) / 2) << name;
    double norm = 0;
    double difference = 0;
    std::size_t at = 0;
    for (std::int64_t i = 0; i < got.n(); ++i) {
      for (std::int64_t j = i; j < got.n(); ++j, ++at) {
        norm += want[at] * want[at];
        difference += std::pow(want[at] - got.view()(i, j), 2);
      }
    }
    expect_close(std::sqrt(difference), std::sqrt(norm), name);
  }
}

/// Both triangles.
double element(const Hessian& h, std::int64_t i, std::int64_t j) {
  return i <= j ? h.view()(i, j) : h.view()(j, i);
}

double product_row(const Hessian& h, std::int64_t i, const std::string& signs) {
  double sum = 0;
  for (std::int64_t j = 0; j < h.n(); ++j)
    sum += signs[static_cast<std::size_t>(j)] == '+' ? element(h, i, j) : -element(h, i, j);
  return sum;
}

double frobenius(const Hessian& h) {
  double sum = 0;
  for (std::int64_t i = 0; i < h.n(); ++i) {
    for (std::int64_t j = 0; j < h.n(); ++j) sum += std::pow(element(h, i, j), 2);
  }
  return std::sqrt(sum);
}

double trace(const Hessian& h) {
  double sum = 0;
  for (std::int64_t i = 0; i < h.n(); ++i) sum += h.view()(i, i);
  return sum;
}

class HessianProbes : public CaptureReference {};

TEST_P(HessianProbes, give_what_they_give_in_the_reference_for_every_input) {
  const json ref = json::parse(read_text_file(folder_ / "ref/hessian_probes.json"));
  const auto products = cortiq::test::read_array<double>(folder_ / "ref" / ref["file"].get<std::string>());
  EXPECT_EQ(ref["items"].size(), groups_.size()) << "every input has a reference";
  std::size_t at = 0;
  for (const json& item : ref["items"]) {
    const Place place{item["layer"], item["role"], item["expert"]};
    const std::string what = item.dump();
    ASSERT_EQ(hessians_.count(place), 1U) << what;
    const Hessian& got = *hessians_.at(place);
    ASSERT_EQ(got.n(), item["n"].get<std::int64_t>()) << what;
    EXPECT_EQ(got.count, item["count"].get<std::int64_t>()) << what;
    const auto probes = ref["probes"][std::to_string(got.n())].get<std::vector<std::string>>();
    const double norm = item["norm"];
    ASSERT_LE(at + probes.size() * static_cast<std::size_t>(got.n()), products.size());
    double difference = 0;
    for (std::int64_t i = 0; i < got.n(); ++i) {
      for (const std::string& signs : probes)
        difference += std::pow(product_row(got, i, signs) - products[at++], 2);
    }
    // The expected square of |D v| for signs v is that of the Frobenius norm of D.
    expect_close(std::sqrt(difference / static_cast<double>(probes.size())), norm, what);
    expect_close(std::fabs(frobenius(got) - norm), norm, what);
    expect_close(std::fabs(trace(got) - item["trace"].get<double>()), item["trace"], what);
  }
  EXPECT_EQ(at, products.size());
}

std::string folder_name(const testing::TestParamInfo<std::string>& folder) {
  return fs::path(folder.param).filename().string();
}
INSTANTIATE_TEST_SUITE_P(Models, WholeHessians,
                         testing::ValuesIn(models_with(test::zoo_dir(), "hessians.json")),
                         folder_name);
INSTANTIATE_TEST_SUITE_P(Models, HessianProbes,
                         testing::ValuesIn(models_with(test::data_dir() / "oracles",
                                                       "hessian_probes.json")),
                         folder_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WholeHessians);

TEST(HessianReferences, are_there) {
  EXPECT_GE(models_with(test::data_dir() / "oracles", "hessian_probes.json").size(), 7U);
  if (models_with(test::zoo_dir(), "hessians.json").empty())
    GTEST_SKIP() << "no reference Hessians in " << test::zoo_dir();
}

}  // namespace
}  // namespace cortiq::calib
