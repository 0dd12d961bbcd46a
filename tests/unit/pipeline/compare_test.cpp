#include "cortiq/pipeline/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/cmf/writer.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "data_dirs.hpp"

namespace cortiq::pipeline {
namespace {

namespace fs = std::filesystem;

struct Matrix {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

class Compare : public testing::Test {
 protected:
  void SetUp() override { folder_ = test::scratch_dir("compare"); }

  fs::path write(const std::string& name, const std::vector<Matrix>& matrices) {
    const cmf::Json header_json = cmf::Json::parse(R"({"format":"cmf","version":2,"arch":{
      "arch_name":"llama","hidden_size":32,"intermediate_size":64,"num_layers":0,
      "num_attention_heads":2,"num_kv_heads":1,"head_dim":16,"vocab_size":100,"layer_types":[],
      "rms_norm_eps":1e-06,"max_position_embeddings":64},"quant_type":"F32"})");
    const cmf::Header header(header_json);
    std::vector<cmf::PlannedTensor> planned;
    for (const Matrix& matrix : matrices)
      planned.push_back({matrix.name, cmf::DType::kF32, matrix.shape, 4 * matrix.values.size()});
    cmf::Writer writer(folder_ / name, header, planned, {});
    for (std::size_t i = 0; i < matrices.size(); ++i)
      writer.write_tensor(i, std::as_bytes(std::span(matrices[i].values)));
    (void)writer.finish(header);
    return folder_ / name;
  }

  /// H = [[2, 1], [1, 3]] for "w", as of the model at `path`.
  fs::path write_cache(const fs::path& path) {
    calib::Hessian hessian(2);
    hessian.count = 4;
    hessian.view()(0, 0) = 2;
    hessian.view()(0, 1) = 1;
    hessian.view()(1, 1) = 3;
    calib::CacheIdentity identity;
    identity.model_hash = model_identity(*open_source(path), pool_);
    calib::HessianCacheWriter writer(folder_ / "h.hess");
    writer.add({"w"}, hessian);
    writer.commit(identity);
    return folder_ / "h.hess";
  }

  Comparison compare(const CompareOptions& options) { return run_compare(options, context_); }
  void expect_error(const CompareOptions& options, ErrorKind kind, std::string_view part) {
    try {
      (void)compare(options);
      ADD_FAILURE() << "was compared";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  fs::path folder_;
  Pool pool_{1};
  NullLog log_;
  Interrupt interrupt_;
  Context context_{pool_, log_, interrupt_};
};

TEST_F(Compare, weight_and_output_errors_are_the_quadratic_forms_of_the_difference) {
  // W = [[1, 2], [0, -1]], E = W - Q = [[1, 0], [-1, 2]].
  const fs::path a = write("a", {{"v", {3}, {1, 2, 3}}, {"w", {2, 2}, {1, 2, 0, -1}}});
  const fs::path b = write("b", {{"v", {3}, {1, 2, 3}}, {"w", {2, 2}, {0, 2, 1, -3}}});
  const Comparison result = compare({a, b, write_cache(a), false});
  ASSERT_EQ(result.tensors.size(), 2U);
  EXPECT_EQ(result.tensors[0].weight_error(), 0);
  EXPECT_EQ(result.tensors[0].unequal, 0);
  EXPECT_FALSE(result.tensors[0].output_error.has_value());
  const TensorComparison& w = result.tensors[1];
  EXPECT_DOUBLE_EQ(w.weight_error(), 6.0 / 6.0);
  EXPECT_EQ(w.largest, 2);
  EXPECT_EQ(w.unequal, 3);
  // tr(E H E^T) = 2 + (2 - 4 + 12), tr(W H W^T) = (2 + 4 + 12) + 3.
  EXPECT_DOUBLE_EQ(w.output_error.value(), 12.0 / 21.0);
  EXPECT_DOUBLE_EQ(result.mean_output_error.value(), 12.0 / 21.0);
  EXPECT_DOUBLE_EQ(result.weight_error, 6.0 / 20.0);
  EXPECT_EQ(result.without_hessian, 0);
  EXPECT_FALSE(compare({a, b, std::nullopt, false}).tensors[1].output_error.has_value());
}

TEST_F(Compare, tensors_of_one_model_only_are_listed) {
  const fs::path a = write("a", {{"w", {1, 2}, {1, 2}}, {"x", {2}, {1, 1}}});
  const fs::path b = write("b", {{"y", {2}, {1, 1}}, {"w", {1, 2}, {1, 2}}});
  const Comparison result = compare({a, b, std::nullopt, false});
  EXPECT_EQ(result.only_in_first, std::vector<std::string>{"x"});
  EXPECT_EQ(result.only_in_second, std::vector<std::string>{"y"});
  EXPECT_EQ(result.weight_error, 0);
}

TEST_F(Compare, what_cannot_be_compared_is_named) {
  const fs::path a = write("a", {{"w", {1, 2}, {1, 2}}});
  expect_error({a, write("b", {{"w", {2, 1}, {1, 2}}}), std::nullopt, false}, ErrorKind::kInput,
               "tensor w: has shape 1x2");
  expect_error({a, write("c", {{"x", {1, 2}, {1, 2}}}), std::nullopt, false}, ErrorKind::kInput,
               "no tensor in common");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_error({a, write("d", {{"w", {1, 2}, {1, nan}}}), std::nullopt, false},
               ErrorKind::kNumeric, "tensor w: row 0, column 1");
}

TEST_F(Compare, a_cache_of_another_model_is_refused_unless_forced) {
  const fs::path a = write("a", {{"w", {1, 2}, {1, 2}}});
  const fs::path b = write("b", {{"w", {1, 2}, {1, 3}}});
  const fs::path cache = write_cache(write("other", {{"w", {1, 2}, {9, 9}}}));
  expect_error({a, b, cache, false}, ErrorKind::kRefused, "belong to neither");
  // E = [0, -1], W = [1, 2]: 3 of 2 + 4 + 12.
  EXPECT_DOUBLE_EQ(compare({a, b, cache, true}).tensors[0].output_error.value(), 3.0 / 18.0);
}

TEST_F(Compare, a_tensor_of_zeros_that_changed_has_an_infinite_error) {
  const fs::path a = write("a", {{"w", {1, 2}, {0, 0}}});
  const fs::path b = write("b", {{"w", {1, 2}, {0, 1}}});
  EXPECT_TRUE(std::isinf(compare({a, b, std::nullopt, false}).tensors[0].weight_error()));
}

}  // namespace
}  // namespace cortiq::pipeline
