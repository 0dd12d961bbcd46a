// compare.hpp: two files of one model, tensor by tensor: how far the weights are apart, and how far
// that moves the outputs on a calibration text. One pair of tensors and one Hessian are held at a
// time. Same numbers for any number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/pipeline/context.hpp"

namespace cortiq::pipeline {

struct CompareOptions {
  std::filesystem::path first;   ///< the reference
  std::filesystem::path second;  ///< judged against it
  std::optional<std::filesystem::path> hessians;  ///< CMFHESS1 cache of one of the two models
  bool hessians_force = false;                    ///< use a cache of another model
};

struct TensorComparison {
  std::string name;
  std::string first_dtype;
  std::string second_dtype;
  std::int64_t weights = 0;
  double energy = 0;            ///< sum of squares of the first
  double difference = 0;        ///< sum of squares of first - second
  double largest = 0;           ///< |first - second|
  std::int64_t unequal = 0;     ///< weights that differ
  std::optional<double> output_error;  ///< tr(E H E^T) / tr(W H W^T), E = first - second
  /// difference / energy; 0 for two equal tensors, infinite against a tensor of zeros.
  [[nodiscard]] double weight_error() const;
};

struct Comparison {
  std::vector<TensorComparison> tensors;  ///< in the order of the first
  std::vector<std::string> only_in_first;
  std::vector<std::string> only_in_second;
  std::int64_t without_hessian = 0;  ///< matrices in both that the cache does not serve
  double weight_error = 0;           ///< over all weights of both
  std::optional<double> mean_output_error;  ///< geometric, over tensors with an output error > 0
};

/// Throws Error{kInput} for models without a common tensor or with different shapes, {kNumeric} for
/// NaN and infinite weights (named), {kRefused} for a cache of another model.
[[nodiscard]] Comparison run_compare(const CompareOptions& options, Context& context);

}  // namespace cortiq::pipeline
