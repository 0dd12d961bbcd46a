#include "cortiq/gptq/fold.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cortiq/linalg/cholesky.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 16;
constexpr double kBaseFloor = 1e-12;   // gptq.md section 3.1
constexpr double kFirstLambda = 1e-4;  // first retry after lambda 0
constexpr double kLambdaGrowth = 10.0;
constexpr double kLambdaLimit = 10.0;

/// What fill() needs of H in reversed elimination order: position i stands for channel[i].
struct Reversed {
  std::vector<std::int64_t> channel;
  std::vector<double> inverse_scale;  ///< 1 / sqrt(damped diagonal), by position
  std::vector<std::uint8_t> dead;     ///< by position
};

double h_at(ConstMatrixView<double> h_upper, std::int64_t a, std::int64_t b) {
  return a <= b ? h_upper(a, b) : h_upper(b, a);
}

double live_mean(ConstMatrixView<double> h_upper, const std::vector<std::uint8_t>& dead) {
  double sum = 0;
  std::int64_t live = 0;
  for (std::int64_t i = 0; i < h_upper.rows(); ++i) {
    if (dead[static_cast<std::size_t>(i)] != 0) continue;
    sum += h_upper(i, i);
    ++live;
  }
  return live > 0 ? sum / static_cast<double>(live) : 0.0;
}

bool row_is_zero(ConstMatrixView<double> h_upper, std::int64_t i) {
  for (std::int64_t j = 0; j < h_upper.rows(); ++j) {
    if (h_at(h_upper, i, j) != 0) return false;
  }
  return true;
}

Reversed reverse_order(ConstMatrixView<double> h_upper, const HostFactor& factor, double damping) {
  const std::size_t n = factor.elimination.size();
  Reversed r{std::vector<std::int64_t>(n), std::vector<double>(n), std::vector<std::uint8_t>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t channel = factor.elimination[n - 1 - i];
    const bool dead = factor.dead[static_cast<std::size_t>(channel)] != 0;
    r.channel[i] = channel;
    r.dead[i] = dead ? 1 : 0;
    r.inverse_scale[i] = 1.0 / std::sqrt((dead ? 1.0 : h_upper(channel, channel)) + damping);
  }
  return r;
}

/// Lower triangle of the equilibrated matrix: D^-1 H_d D^-1 has a unit diagonal, so pivots do not
/// depend on H's scale.
void fill(ConstMatrixView<double> h_upper, const Reversed& r, MatrixView<double> a, Pool& pool) {
  const std::int64_t n = a.rows();
  pool.for_ranges(n, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto si = static_cast<std::size_t>(i);
      double* row = a.row(i);
      row[i] = 1.0;
      if (r.dead[si] != 0) {
        std::fill(row, row + i, 0.0);
        continue;
      }
      for (std::int64_t j = 0; j < i; ++j) {
        const auto sj = static_cast<std::size_t>(j);
        const double h = r.dead[sj] != 0 ? 0.0 : h_at(h_upper, r.channel[si], r.channel[sj]);
        row[j] = h * r.inverse_scale[si] * r.inverse_scale[sj];
      }
    }
  });
}

/// out[k] = reversed[n-1-k] / D_k for k in [first, n), zeros before; reversed holds n - first
/// entries of a row of X.
void write_row(const double* reversed, const Reversed& r, std::int64_t first, std::int64_t n,
               double* out) {
  std::fill(out, out + first, 0.0);
  for (std::int64_t k = first; k < n; ++k) {
    out[k] = reversed[n - 1 - k] * r.inverse_scale[static_cast<std::size_t>(n - 1 - k)];
  }
}

/// X (lower, reversed order) becomes U: U[j][k] = X[n-1-j][n-1-k] / D_k. Rows j and n-1-j change
/// places, so they are done together; the upper triangle of x need not hold anything.
void turn_and_scale(MatrixView<double> x, const Reversed& r, Pool& pool) {
  const std::int64_t n = x.rows();
  pool.for_ranges((n + 1) / 2, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> shorter(static_cast<std::size_t>(end));
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t other = n - 1 - j;
      std::copy(x.row(j), x.row(j) + j + 1, shorter.begin());
      if (other != j) write_row(x.row(other), r, j, n, x.row(j));
      write_row(shorter.data(), r, other, n, x.row(other));
    }
  });
}

void set_identity(MatrixView<double> a, Pool& pool) {
  pool.for_ranges(a.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::fill(a.row(i), a.row(i) + a.cols(), 0.0);
      a(i, i) = 1.0;
    }
  });
}

bool factors_with(ConstMatrixView<double> h_upper, double damping, HostFactor& factor, Pool& pool) {
  const Reversed reversed = reverse_order(h_upper, factor, damping);
  const MatrixView<double> a(factor.values.get(), factor.n(), factor.n());
  fill(h_upper, reversed, a, pool);
  if (linalg::cholesky_in_place(a, pool)) return false;
  linalg::invert_lower_in_place(a, pool);
  turn_and_scale(a, reversed, pool);
  return true;
}

/// H_d in elimination order, both triangles; dead channels are cut out and have a unit diagonal, as
/// in the fold.
void keep_damped(ConstMatrixView<double> h_upper, HostFactor& factor, Pool& pool) {
  const std::int64_t n = factor.n();
  factor.damped = make_page_buffer<double>(n * n, PageSize::kHuge);
  const MatrixView<double> out(factor.damped.get(), n, n);
  pool.for_ranges(n, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t a = factor.elimination[static_cast<std::size_t>(i)];
      const bool dead = factor.dead[static_cast<std::size_t>(a)] != 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t b = factor.elimination[static_cast<std::size_t>(j)];
        const bool cut = dead || factor.dead[static_cast<std::size_t>(b)] != 0;
        out(i, j) = cut ? 0.0 : h_at(h_upper, a, b);
      }
      out(i, i) = (dead ? 1.0 : h_upper(a, a)) + factor.damping;
    }
  });
}

}  // namespace

ChannelFacts examine_channels(ConstMatrixView<double> h_upper) {
  const std::int64_t n = h_upper.rows();
  ChannelFacts facts;
  facts.dead.assign(static_cast<std::size_t>(n), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    if (h_upper(i, i) > 0) continue;  // NaN is dead too
    facts.dead[static_cast<std::size_t>(i)] = 1;
    ++facts.dead_channels;
    facts.dead_rows_zero = facts.dead_rows_zero && row_is_zero(h_upper, i);
  }
  facts.mostly_dead = facts.dead_channels > 0 && (n - facts.dead_channels) * kLiveShareFloor < n;
  facts.base = std::max(live_mean(h_upper, facts.dead), kBaseFloor);
  return facts;
}

std::optional<double> next_lambda(double lambda) {
  const double next = lambda == 0 ? kFirstLambda : kLambdaGrowth * lambda;
  return next > kLambdaLimit ? std::nullopt : std::optional(next);
}

std::unique_ptr<HostFactor> fold_host(ConstMatrixView<double> h_upper, const FoldOptions& options,
                                      Pool& pool) {
  CORTIQ_ASSERT(h_upper.rows() == h_upper.cols());
  const std::int64_t n = h_upper.rows();
  auto factor = std::make_unique<HostFactor>();
  factor->order = options.order;
  factor->elimination = elimination_order(h_upper, options.order);
  factor->values = make_page_buffer<double>(n * n, PageSize::kHuge);
  ChannelFacts facts = examine_channels(h_upper);
  const double base = options.base ? *options.base : facts.base;
  factor->dead = std::move(facts.dead);
  factor->dead_channels = facts.dead_channels;
  factor->mostly_dead = facts.mostly_dead;
  factor->dead_rows_zero = facts.dead_rows_zero;

  double lambda = options.lambda > 0 ? options.lambda : 0.0;
  for (;;) {
    factor->lambda_tried.push_back(lambda);
    if (factors_with(h_upper, lambda * base, *factor, pool)) {
      factor->lambda_used = lambda;
      factor->damping = lambda * base;
      factor->identity = factor->mostly_dead;
      if (options.keep_damped && !factor->identity) keep_damped(h_upper, *factor, pool);
      return factor;
    }
    const std::optional<double> next = next_lambda(lambda);
    if (!next) break;
    lambda = *next;
  }
  factor->identity = true;
  set_identity(MatrixView<double>(factor->values.get(), n, n), pool);
  return factor;
}

std::optional<std::int64_t> find_non_finite_upper(ConstMatrixView<double> h_upper, Pool& pool) {
  const std::int64_t n = h_upper.rows();
  std::vector<std::int64_t> first(static_cast<std::size_t>(n), -1);
  pool.for_ranges(n, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double* row = h_upper.row(i);
      const double* bad =
          std::find_if_not(row + i, row + n, [](double v) { return std::isfinite(v); });
      if (bad != row + n) first[static_cast<std::size_t>(i)] = i * n + (bad - row);
    }
  });
  const auto hit = std::find_if(first.begin(), first.end(), [](std::int64_t i) { return i >= 0; });
  return hit == first.end() ? std::nullopt : std::optional(*hit);
}

}  // namespace cortiq::gptq
