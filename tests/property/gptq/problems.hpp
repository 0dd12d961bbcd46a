// problems.hpp: seeded GPTQ problems, and a plain f64 GPTQ of one row at a time to compare the
// product with. The reference knows nothing of slabs, blocks or vectors: it updates the whole row
// after every column.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cortiq/codec/decode.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/backend.hpp"
#include "cortiq/gptq/fold.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/half.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::test {

/// The generator of gptq.md section 12, "Data note": samples in [-0.5, 0.5).
class Lcg {
 public:
  explicit Lcg(std::uint64_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<double>(state_ >> 33) / 2147483648.0) - 0.5F;
  }

 private:
  std::uint64_t state_;
};

struct Problem {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::vector<float> w;
  std::vector<double> h;  ///< full symmetric

  ConstMatrixView<float> weights() const { return {w.data(), rows, n}; }
  ConstMatrixView<double> hessian() const { return {h.data(), n, n}; }
  void kill_channel(std::int64_t c) {
    for (std::int64_t i = 0; i < n; ++i) h[at(i, c)] = h[at(c, i)] = 0.0;
  }
  std::size_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * n + j);
  }
};

struct ProblemSpec {
  std::int64_t rows = 24;
  std::int64_t n = 96;
  int samples = 400;
  int factors = 4;        ///< latent factors behind the activations; 0 = independent channels
  std::int64_t loud = 5;  ///< channel scaled by loud_scale; -1 = none
  float loud_scale = 8;
  float outlier = 1;  ///< every 37th weight times this
  std::uint64_t seed = 1;
};

inline Problem make_problem(const ProblemSpec& spec) {
  Lcg random(spec.seed);
  Problem p{spec.rows, spec.n, {}, {}};
  const std::int64_t n = spec.n;
  for (std::int64_t i = 0; i < spec.rows * n; ++i)
    p.w.push_back(random.next() * (i % 37 == 0 ? spec.outlier : 1.0F));
  std::vector<float> mix(static_cast<std::size_t>(spec.factors * n));
  for (float& m : mix) m = random.next();
  p.h.assign(static_cast<std::size_t>(n * n), 0.0);
  std::vector<double> x(static_cast<std::size_t>(n));
  for (int t = 0; t < spec.samples; ++t) {
    for (double& v : x) v = 0.3 * static_cast<double>(random.next());
    for (int f = 0; f < spec.factors; ++f) {
      const double z = static_cast<double>(random.next());
      for (std::int64_t c = 0; c < n; ++c)
        x[static_cast<std::size_t>(c)] +=
            z * static_cast<double>(mix[static_cast<std::size_t>(f * n + c)]);
    }
    if (spec.loud >= 0)
      x[static_cast<std::size_t>(spec.loud)] *= static_cast<double>(spec.loud_scale);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j)
        p.h[p.at(i, j)] += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(j)];
    }
  }
  return p;
}

/// A payload taken apart: codes by element, rungs by group, parameters by row.
struct Unpacked {
  std::vector<int> codes;
  std::vector<int> rungs;
  std::vector<codec::LadderParams> params;
};

inline Unpacked unpack(gptq::Target target, std::int64_t rows, std::int64_t n,
                       const std::vector<std::byte>& payload) {
  const int bits = target == gptq::Target::kQ4tp ? 4 : 2;
  const codec::PlaneLayout layout = codec::plane_layout(bits, rows, n);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
  Unpacked u;
  for (std::int64_t i = 0; i < rows * n; ++i)
    u.codes.push_back((bytes[i * bits / 8] >> (i * bits % 8)) & ((1 << bits) - 1));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint8_t* params = bytes + layout.params_offset + 4 * r;
    u.params.push_back({load_le<std::uint16_t>(params), load_le<std::uint16_t>(params + 2)});
    const std::uint8_t* row = bytes + layout.rungs_offset + r * layout.rung_row_bytes;
    for (std::int64_t g = 0; g < n / 32; ++g)
      u.rungs.push_back(static_cast<int>(codec::get_rung(row, g)));
  }
  return u;
}

inline std::vector<float> decode(gptq::Target target, std::int64_t rows, std::int64_t n,
                                 const std::vector<std::byte>& payload) {
  const std::int64_t shape[] = {rows, n};
  const codec::RowDecoder decoder(
      target == gptq::Target::kQ4tp ? cmf::DType::kQ4tp : cmf::DType::kQ2tp, shape, payload,
      codec::LadderKind::kDeterministic);
  std::vector<float> values(static_cast<std::size_t>(rows * n));
  decoder.decode(0, MatrixView<float>(values.data(), rows, n));
  return values;
}

/// tr(E H E^T) by the definition.
inline double naive_error(const Problem& p, const std::vector<float>& quantized) {
  double total = 0;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t i = 0; i < p.n; ++i) {
      const double ei =
          static_cast<double>(p.w[p.at(r, i)]) - static_cast<double>(quantized[p.at(r, i)]);
      for (std::int64_t j = 0; j < p.n; ++j) {
        const double ej =
            static_cast<double>(p.w[p.at(r, j)]) - static_cast<double>(quantized[p.at(r, j)]);
        total += ei * p.h[p.at(i, j)] * ej;
      }
    }
  }
  return total;
}

}  // namespace cortiq::test
