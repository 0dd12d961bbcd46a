#include "cortiq/pipeline/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/codec/codec.hpp"
#include "cortiq/gptq/backend.hpp"
#include "cortiq/pipeline/model_source.hpp"

namespace cortiq::pipeline {
namespace {

/// A tensor that both models have.
struct Pair {
  std::size_t first = 0;
  std::size_t second = 0;
  std::optional<std::size_t> entry;  // of the cache
};

struct RowSums {
  double energy = 0;
  double difference = 0;
  double largest = 0;
  std::int64_t unequal = 0;
};

RowSums compare_row(const float* a, const float* b, std::int64_t count) {
  RowSums sums;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(a[i]);
    const double d = x - static_cast<double>(b[i]);
    sums.energy += x * x;
    sums.difference += d * d;
    sums.largest = std::max(sums.largest, std::fabs(d));
    sums.unequal += d != 0 ? 1 : 0;
  }
  return sums;
}

void compare_weights(const DecodedTensor& a, const DecodedTensor& b, TensorComparison& result,
                     Pool& pool) {
  constexpr std::int64_t kRowGrain = 16;
  std::vector<RowSums> rows(static_cast<std::size_t>(a.rows));
  pool.for_ranges(a.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      rows[static_cast<std::size_t>(r)] = compare_row(a.view().row(r), b.view().row(r), a.cols);
  });
  for (const RowSums& row : rows) {
    result.energy += row.energy;
    result.difference += row.difference;
    result.largest = std::max(result.largest, row.largest);
    result.unequal += row.unequal;
  }
}

class Comparer {
 public:
  Comparer(const CompareOptions& options, Context& context)
      : context_(context), first_(open_source(options.first)), second_(open_source(options.second)) {
    if (!options.hessians) return;
    cache_.emplace(calib::HessianCache::open(*options.hessians));
    (void)cache_->sha256();
    check_cache(options.hessians_force);
  }

  Comparison run() {
    Comparison result;
    const std::vector<Pair> pairs = match(result);
    result.tensors.resize(pairs.size());
    // Tensors that share a Hessian follow each other, so that it is read once.
    std::vector<std::size_t> order(pairs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
      return pairs[i].entry.value_or(0) < pairs[j].entry.value_or(0);
    });
    std::int64_t done = 0;
    for (const std::size_t i : order) {
      context_.interrupt.check();
      result.tensors[i] = compare(pairs[i]);
      context_.log.progress("comparing", ++done, static_cast<std::int64_t>(pairs.size()),
                            "tensors");
    }
    add_totals(result);
    return result;
  }

 private:
  void check_cache(bool force);
  std::vector<Pair> match(Comparison& result) const;
  TensorComparison compare(const Pair& pair);
  const calib::Hessian& hessian(std::size_t entry);
  static void add_totals(Comparison& result);

  Context& context_;
  std::unique_ptr<cmf::Source> first_;
  std::unique_ptr<cmf::Source> second_;
  std::optional<calib::HessianCache> cache_;
  std::unique_ptr<calib::Hessian> loaded_;
  std::size_t loaded_entry_ = 0;
};

void Comparer::check_cache(bool force) {
  const auto identity = cache_->identity();
  if (!identity) {
    context_.log.warn(
        "{}: has no identity file beside it, so it cannot be checked that these Hessians belong to "
        "the models",
        cache_->path().string());
    return;
  }
  const auto belongs = [&](const cmf::Source& source) {
    return model_identity(source, context_.pool) == identity->model_hash;
  };
  if (belongs(*first_) || belongs(*second_)) return;
  const std::string text = fmt::format("{}: the Hessians belong to neither {} nor {}",
                                       cache_->path().string(), first_->path().string(),
                                       second_->path().string());
  if (!force) {
    fail(ErrorKind::kRefused,
         "{}; capture them with `cortiq-quant hessians capture`, or use them all the same with "
         "--hessians-force",
         text);
  }
  context_.log.warn("{}", text);
}

std::vector<Pair> Comparer::match(Comparison& result) const {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < first_->tensors().size(); ++i) {
    const cmf::TensorInfo& tensor = first_->tensors()[i];
    const auto other = second_->find(tensor.name);
    if (!other) {
      result.only_in_first.push_back(tensor.name);
      continue;
    }
    const auto& shape = second_->tensors()[*other].shape;
    if (shape != tensor.shape) {
      fail(ErrorKind::kInput,
           "tensor {}: has shape {} in {} and {} in {}; name two files of one model", tensor.name,
           fmt::join(tensor.shape, "x"), first_->path().string(), fmt::join(shape, "x"),
           second_->path().string());
    }
    Pair pair{i, *other, std::nullopt};
    const bool matrix = tensor.shape.size() == 2;
    if (cache_ && matrix) pair.entry = cache_->find(tensor.name, tensor.shape[1]);
    if (cache_ && matrix && !pair.entry) ++result.without_hessian;
    pairs.push_back(pair);
  }
  for (const cmf::TensorInfo& tensor : second_->tensors()) {
    if (!first_->find(tensor.name)) result.only_in_second.push_back(tensor.name);
  }
  if (pairs.empty()) {
    fail(ErrorKind::kInput, "{} and {} have no tensor in common; name two files of one model",
         first_->path().string(), second_->path().string());
  }
  return pairs;
}

const calib::Hessian& Comparer::hessian(std::size_t entry) {
  if (!loaded_ || loaded_entry_ != entry) {
    loaded_.reset();
    loaded_ = cache_->read(entry);
    loaded_entry_ = entry;
  }
  return *loaded_;
}

TensorComparison Comparer::compare(const Pair& pair) {
  const auto load = [&](const cmf::Source& source, std::size_t index) {
    DecodedTensor tensor = decode_tensor(source, index, context_.pool);
    if (const auto bad = codec::find_non_finite(tensor.view(), context_.pool)) {
      fail(ErrorKind::kNumeric,
           "{}: tensor {}: row {}, column {} is {}, so it cannot be compared; the model is damaged",
           source.path().string(), source.tensors()[index].name, *bad / tensor.cols,
           *bad % tensor.cols, tensor.values[static_cast<std::size_t>(*bad)]);
    }
    source.release(index);
    return tensor;
  };
  const cmf::TensorInfo& info = first_->tensors()[pair.first];
  TensorComparison result;
  result.name = info.name;
  result.first_dtype = cmf::dtype_name(info.dtype);
  result.second_dtype = cmf::dtype_name(second_->tensors()[pair.second].dtype);
  result.weights = info.elements();
  const DecodedTensor a = load(*first_, pair.first);
  const DecodedTensor b = load(*second_, pair.second);
  compare_weights(a, b, result, context_.pool);
  if (pair.entry) {
    const gptq::OutputError error =
        gptq::output_error(a.view(), b.view(), hessian(*pair.entry).view(), context_.pool);
    if (error.energy > 0) result.output_error = error.error / error.energy;
  }
  return result;
}

void Comparer::add_totals(Comparison& result) {
  double energy = 0;
  double difference = 0;
  double logs = 0;
  std::int64_t count = 0;
  for (const TensorComparison& tensor : result.tensors) {
    energy += tensor.energy;
    difference += tensor.difference;
    if (!tensor.output_error || !(*tensor.output_error > 0)) continue;
    logs += std::log(*tensor.output_error);
    ++count;
  }
  TensorComparison all;
  all.energy = energy;
  all.difference = difference;
  result.weight_error = all.weight_error();
  if (count > 0) result.mean_output_error = std::exp(logs / static_cast<double>(count));
}

}  // namespace

double TensorComparison::weight_error() const {
  if (difference == 0) return 0;
  return energy > 0 ? difference / energy : std::numeric_limits<double>::infinity();
}

Comparison run_compare(const CompareOptions& options, Context& context) {
  return Comparer(options, context).run();
}

}  // namespace cortiq::pipeline
