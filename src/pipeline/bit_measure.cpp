// bit_measure.cpp: the losses behind an allocation of bits, and the run's options made of it.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>

#include "backend_choice.hpp"
#include "bit_allocation.hpp"
#include "calibration_input.hpp"
#include "cortiq/codec/codec.hpp"
#include "cortiq/codec/decode.hpp"
#include "cortiq/model/sensitivity.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/pipeline/plan.hpp"
#include "tensor_work.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

using codec::Codec;

constexpr std::int64_t kProbeTokens = 512;  // of text for the sensitivity of the layers
constexpr std::int64_t kProbeWindow = 128;
constexpr std::int64_t kMostProbes = 16;

std::uint64_t bytes_of(Codec codec, const std::vector<std::int64_t>& shape) {
  const auto bytes = cmf::fixed_payload_bytes(codec::dtype_of(codec), shape);
  CORTIQ_ASSERT(bytes.has_value());
  return *bytes;
}

/// tr(E H E^T) of a tensor rounded to a codec without GPTQ.
double rounded_error(const DecodedTensor& w, Codec codec, gptq::Backend& backend,
                     ConstMatrixView<double> h, const gptq::Factor& factor, Pool& pool) {
  const auto payload = codec::encode(codec, w.view(), {}, pool);
  return payload_error({w, codec, payload}, backend, h, factor, pool);
}

float largest_magnitude(const DecodedTensor& w) {
  float most = 0;
  for (const float value : w.values) most = std::max(most, std::fabs(value));
  return most;
}

/// The sweep of the run, with a codec to try.
gptq::SweepOptions sweep_with(const GptqOptions& options, Codec codec) {
  TensorChoice choice;
  choice.codec = codec;
  choice.rule = options.selection.rule;
  return sweep_options(choice, group_settings(options));
}

class Measurement {
 public:
  Measurement(const GptqOptions& options, const cmf::Source& source, BackendChoice& backend, Context& context)
      : options_(options), source_(source), backend_(backend), context_(context) {}

  /// Losses of the members of a group.
  std::vector<TensorOptions> measure(const GroupPlan& group, const calib::Hessian& hessian) {
    gptq::FoldOptions fold;
    fold.lambda = options_.lambda;
    fold.order = options_.order;
    fold.keep_damped = options_.polish > 0;
    fold.host_only = gptq::needs_host(sweep_with(options_, Codec::kQ4tp));
    const auto factor = backend_.backend().fold(hessian.view(), fold);
    std::vector<TensorOptions> result;
    for (const std::size_t index : group.tensors) {
      const cmf::TensorInfo& info = source_.tensors()[index];
      DecodedTensor w = decode_tensor(source_, index, context_.pool);
      check_finite(w, info.name, options_.sanitize ? NonFinite::kSanitize : NonFinite::kRefuse, context_.pool);
      source_.release(index);
      TensorOptions tensor{info.name, static_cast<std::uint64_t>(w.rows * w.cols), {}};
      double energy = 0;
      for (const Codec codec : {Codec::kQ2tp, Codec::kQ4tp}) {
        const gptq::SweepJob job{info.name, w.view(), sweep_with(options_, codec)};
        const auto swept = backend_.backend().sweep_group(std::span(&job, 1), hessian.view(), *factor);
        energy = swept.front().output_energy;
        tensor.options.push_back({codec, bytes_of(codec, info.shape), swept.front().output_error});
      }
      const float most = largest_magnitude(w);
      for (const Codec codec : {Codec::kQ82f, Codec::kF16}) {
        if (most > codec::largest_weight(codec)) continue;
        tensor.options.push_back(
            {codec, bytes_of(codec, info.shape),
             rounded_error(w, codec, backend_.backend(), hessian.view(), *factor, context_.pool)});
      }
      // Without an output nothing is lost with any codec.
      for (CodecOption& option : tensor.options)
        option.loss = energy > 0 ? std::max(option.loss, 0.0) / energy : 0.0;
      result.push_back(std::move(tensor));
    }
    return result;
  }

 private:
  const GptqOptions& options_;
  const cmf::Source& source_;
  BackendChoice& backend_;
  Context& context_;
};

/// The candidates whose codec is free: those that the user has not named.
bool is_free(const GptqOptions& options, const std::string& name) {
  return std::none_of(options.selection.overrides.begin(), options.selection.overrides.end(),
                      [&](const auto& entry) { return codec::glob_match(entry.pattern, name); });
}

std::vector<TensorOptions> measure_all(const GptqOptions& options, const cmf::Source& source, Plan& plan,
                                       const calib::HessianCache& cache, Context& context) {
  BackendChoice backend;
  backend.resolve(options.device, context);
  backend.open(context);
  Measurement measurement(options, source, backend, context);
  std::vector<std::vector<TensorOptions>> groups(plan.groups.size());
  std::atomic<std::int64_t> done = 0;
  const auto total = static_cast<std::int64_t>(groups.size());
  std::atomic<std::size_t> next = 0;
  context.pool.for_each(std::min(total, backend.groups_at_once(context.pool.threads())), [&](std::int64_t) {
    for (std::size_t i = next++; i < groups.size(); i = next++) {
      context.interrupt.check();
      const GroupPlan& group = plan.groups[i];
      const auto hessian = cache.read(*group.cache_entry);
      if (hessian->count >= std::max<std::int64_t>(options.min_rows, 1)) groups[i] = measurement.measure(group, *hessian);
      context.log.progress("measuring codecs", ++done, total, "groups");
    }
  });
  std::vector<TensorOptions> tensors;
  for (auto& group : groups) {
    for (TensorOptions& tensor : group) {
      if (is_free(options, tensor.name)) tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

/// Layer of a tensor, by its name; -1 outside the layers.
std::int64_t layer_of(const std::string& name) {
  const std::size_t place = name.find("layers.");
  if (place == std::string::npos) return -1;
  return std::atoll(name.c_str() + place + 7);
}

/// What a tensor's relative output error means for the end of the model: that of its layer, and of its part in it.
/// The parts' factors are means of the KL divergence per relative error, measured tensor by tensor on small models
/// (docs/quality.md, "bits on target").
double part_weight(const std::string& name) {
  constexpr std::pair<const char*, double> kParts[] = {
      {"q_proj", 0.28}, {"k_proj", 0.46}, {"v_proj", 0.38}, {"o_proj", 0.88}, {"gate_proj", 1.57}, {"up_proj", 0.98}, {"down_proj", 1.67}};
  for (const auto& [part, weight] : kParts)
    if (name.find(part) != std::string::npos) return weight;
  return 1.0;
}

void weigh_losses(std::vector<TensorOptions>& tensors, const GptqOptions& options, const cmf::Source& source, Context& context) {
  const model::Forward forward(source, context.pool);
  CalibrationOptions few = options.calibration;
  few.tokens = kProbeTokens;
  few.window = kProbeWindow;
  const CalibrationInput input = load_calibration(source, forward.arch(), few, false, true, context.log);
  const std::int64_t layers = forward.arch().layers;
  const std::vector<double> layer = model::layer_sensitivity(
      forward, input.corpus.windows, kMostProbes, [&](std::int64_t done) {
        context.interrupt.check();
        context.log.progress("probing layers", done, layers, "layers");
      });
  for (std::size_t l = 0; l < layer.size(); ++l) context.log.debug("bits: layer {} sensitivity {:.4e}", l, layer[l]);
  for (TensorOptions& tensor : tensors) {
    const std::int64_t l = layer_of(tensor.name);
    const double weight = part_weight(tensor.name) * (l >= 0 && l < layers ? layer[static_cast<std::size_t>(l)] : 1.0);
    for (CodecOption& option : tensor.options) option.loss *= weight;
  }
}

void append_overrides(GptqOptions& options, const std::vector<TensorOptions>& tensors, const Allocation& allocation) {
  for (std::size_t t = 0; t < tensors.size(); ++t)
    options.selection.overrides.push_back({tensors[t].name, tensors[t].options[allocation.chosen[t]].codec});
}

void log_allocation(const std::vector<TensorOptions>& tensors, const Allocation& allocation, Context& context) {
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> by_codec;
  std::uint64_t weights = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const CodecOption& chosen = tensors[t].options[allocation.chosen[t]];
    auto& entry = by_codec[std::string(codec::codec_name(chosen.codec))];
    ++entry.first;
    entry.second += tensors[t].weights;
    weights += tensors[t].weights;
    context.log.debug("bits: {} {} (loss {:.3e})", tensors[t].name, codec::codec_name(chosen.codec), chosen.loss);
  }
  context.log.info("bits: {:.3f} per weight over {} matrices whose codec is chosen, predicted loss {:.4e}",
                   8.0 * static_cast<double>(allocation.bytes) / static_cast<double>(weights), tensors.size(),
                   allocation.loss);
  for (const auto& [name, entry] : by_codec)
    context.log.info("bits:   {:6} {} matrices, {:.1f} % of the weights", name, entry.first,
                     100.0 * static_cast<double>(entry.second) / static_cast<double>(weights));
}

[[noreturn]] void refuse_target(const std::vector<TensorOptions>& tensors, const std::string& what) {
  std::uint64_t least = 0, weights = 0;
  for (const TensorOptions& tensor : tensors) {
    least += tensor.options.front().bytes;
    weights += tensor.weights;
  }
  fail(ErrorKind::kRefused, "{} cannot be met: with q2tp everywhere the matrices take {} bytes, {:.3f} bits per weight; ask for more",
       what, least, 8.0 * static_cast<double>(least) / static_cast<double>(weights));
}

std::uint64_t weights_of(const std::vector<TensorOptions>& tensors) {
  std::uint64_t weights = 0;
  for (const TensorOptions& tensor : tensors) weights += tensor.weights;
  return weights;
}

/// The codecs for a file of at most `wanted` bytes, alignment and directory included.
GptqOptions fit_file(const GptqOptions& options, const cmf::Source& source, const std::vector<TensorOptions>& tensors,
                     Context& context) {
  const std::uint64_t wanted = *options.bits.file_bytes;
  GptqOptions least = options;
  append_overrides(least, tensors, {std::vector<std::size_t>(tensors.size(), 0), 0, 0});
  const Plan plan = plan_tensors(source, least.selection, 0.01F, options.sanitize, context);
  std::vector<cmf::PlannedTensor> output = plan.output;  // the rest of the file stays as it is
  const auto file_bytes = [&](const Allocation& allocation) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const CodecOption& chosen = tensors[t].options[allocation.chosen[t]];
      cmf::PlannedTensor& tensor = output[*source.find(tensors[t].name)];
      tensor.dtype = codec::dtype_of(chosen.codec);
      tensor.nbytes = chosen.bytes;
    }
    return cmf::plan_file_bytes(source.header(), output, {source.masks(), source.vocab(), source.mask_index()});
  };
  const auto allocation = allocate_file(tensors, wanted, file_bytes);
  if (!allocation) {
    fail(ErrorKind::kRefused, "--target-size {} cannot be met: with q2tp everywhere the file takes {} bytes; ask for that or more",
         wanted, plan.output_bytes);
  }
  log_allocation(tensors, *allocation, context);
  context.log.info("bits: the file takes {} of at most {} bytes", file_bytes(*allocation), wanted);
  GptqOptions fitted = options;
  append_overrides(fitted, tensors, *allocation);
  return fitted;
}

}  // namespace

GptqOptions with_allocated_bits(const GptqOptions& options, Context& context) {
  if (!options.hessians) {
    fail(ErrorKind::kUsage,
         "--target-bpw and --target-size measure every codec on the same Hessians; name a cache with --hessians "
         "FILE (it is made if it does not exist)");
  }
  if (!fs::exists(*options.hessians)) {
    if (options.dry_run) {
      context.log.info("bits: the Hessians of {} would be summed first; the allocation follows from them",
                       options.hessians->string());
      return options;
    }
    CaptureOptions capture;
    capture.calibration = options.calibration;
    capture.q2tp = true;
    static_cast<void>(run_capture(options.input, *options.hessians, capture, context));
  }
  const auto source = open_source(options.input, options.sanitize ? NonFinite::kSanitize : NonFinite::kRefuse);
  Plan plan = plan_tensors(*source, options.selection, 0.01F, options.sanitize, context);
  const auto cache = calib::HessianCache::open(*options.hessians);
  plan_groups_by_cache(plan, *source, cache);
  std::vector<TensorOptions> tensors = measure_all(options, *source, plan, cache, context);
  if (tensors.empty())
    fail(ErrorKind::kRefused, "{}: no matrix is free to choose a codec for; give fewer --tensor-quant and --skip, or a wider --include", options.input.string());
  weigh_losses(tensors, options, *source, context);
  if (options.bits.file_bytes) return fit_file(options, *source, tensors, context);
  const double bits = *options.bits.bits_per_weight;
  const auto allocation =
      allocate(tensors, static_cast<std::uint64_t>(bits / 8.0 * static_cast<double>(weights_of(tensors))));
  if (!allocation) refuse_target(tensors, fmt::format("--target-bpw {:g}", bits));
  log_allocation(tensors, *allocation, context);
  GptqOptions chosen = options;
  append_overrides(chosen, tensors, *allocation);
  return chosen;
}

}  // namespace cortiq::pipeline
