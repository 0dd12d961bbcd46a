#include "selftest_problem.hpp"

#include <cmath>
#include <functional>

namespace cortiq::device {

namespace {

constexpr int kFactors = 4;
constexpr double kNoise = 0.3;
constexpr double kLoud = 30;
constexpr int kPowerSteps = 60;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class Lcg {
 public:
  explicit Lcg(std::uint64_t seed) : state_(seed) {}
  /// In [-0.5, 0.5).
  double next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 33) / 2147483648.0 - 0.5;
  }

 private:
  std::uint64_t state_;
};

/// [samples,n]
std::vector<double> make_samples(const ProblemSpec& spec, Lcg& random) {
  std::vector<double> size(at(spec.n), 1.0), mix(at(kFactors * spec.n));
  if (spec.decades > 0)
    for (double& s : size) s = std::pow(10.0, spec.decades * (random.next() - 0.5));
  for (const std::int64_t c : spec.dead) size[at(c)] = 0;
  for (const std::int64_t c : spec.loud) size[at(c)] *= kLoud;
  for (double& m : mix) m = random.next();
  std::vector<double> x(at(spec.samples * spec.n));
  for (std::int64_t t = 0; t < spec.samples; ++t) {
    double factor[kFactors];
    for (double& f : factor) f = spec.common * random.next();
    for (std::int64_t c = 0; c < spec.n; ++c) {
      double value = kNoise * random.next();
      for (int f = 0; f < kFactors; ++f) value += factor[f] * mix[at(f * spec.n + c)];
      x[at(t * spec.n + c)] = value * size[at(c)];
    }
  }
  return x;
}

double largest_eigenvalue(std::int64_t n, const std::function<std::vector<double>(const std::vector<double>&)>& apply) {
  Lcg random(7);
  std::vector<double> v(at(n));
  for (double& x : v) x = random.next();
  double norm = 0;
  for (int step = 0; step < kPowerSteps; ++step) {
    v = apply(v);
    norm = 0;
    for (const double x : v) norm += x * x;
    norm = std::sqrt(norm);
    for (double& x : v) x /= norm;
  }
  return norm;
}

}  // namespace

SelftestProblem make_selftest_problem(const ProblemSpec& spec, Pool& pool) {
  Lcg random(spec.seed);
  SelftestProblem problem{spec.rows, spec.n, std::vector<double>(at(spec.n * spec.n)), {}};
  for (std::int64_t i = 0; i < spec.rows * spec.n; ++i)
    problem.w.push_back(static_cast<float>(random.next()));
  const std::vector<double> x = make_samples(spec, random);
  const std::int64_t n = spec.n;
  pool.for_ranges(n, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = 0; t < spec.samples; ++t) {
      const double* sample = x.data() + t * n;
      for (std::int64_t i = begin; i < end; ++i) {
        double* row = problem.h.data() + i * n;
        for (std::int64_t j = 0; j < n; ++j) row[j] += sample[i] * sample[j];
      }
    }
  });
  return problem;
}

double damped_condition(const SelftestProblem& problem, double damping,
                        const std::vector<std::int64_t>& elimination, ConstMatrixView<double> u) {
  const std::int64_t n = problem.n;
  const auto hessian = [&](const std::vector<double>& v) {
    std::vector<double> out(v.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const double* row = problem.h.data() + elimination[at(i)] * n;
      double sum = damping * v[at(i)];
      for (std::int64_t j = 0; j < n; ++j) sum += row[elimination[at(j)]] * v[at(j)];
      out[at(i)] = sum;
    }
    return out;
  };
  const auto inverse = [&](const std::vector<double>& v) {
    std::vector<double> middle(v.size()), out(v.size(), 0.0);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i; j < n; ++j) middle[at(i)] += u(i, j) * v[at(j)];
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i; j < n; ++j) out[at(j)] += u(i, j) * middle[at(i)];
    return out;
  };
  return largest_eigenvalue(n, hessian) * largest_eigenvalue(n, inverse);
}

}  // namespace cortiq::device
