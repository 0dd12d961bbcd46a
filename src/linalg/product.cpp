#include "product.hpp"

#include <algorithm>

#include "cortiq/linalg/gemm.hpp"

#include "cortiq/support/error.hpp"
#include "scratch.hpp"

namespace cortiq::linalg {
namespace {

/// Columns packed at a time: bounds the packed B to 8 MiB (f64, depth 256).
constexpr std::int64_t kColumnChunk = 4096;
/// Output tile of one task. Rows: a packed block of A of about half a 512 KiB second-level cache.
constexpr std::int64_t kTaskCols = 512;
/// Below this many multiply-adds (some 20 microseconds) a product is not worth waking workers.
constexpr std::int64_t kSerialWork = std::int64_t{1} << 19;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

void for_each(bool serial, Pool& pool, std::int64_t count,
              const std::function<void(std::int64_t)>& fn) {
  if (!serial) return pool.for_each(count, fn);
  for (std::int64_t i = 0; i < count; ++i) fn(i);
}

template <typename T>
struct Traits;
template <>
struct Traits<float> {
  static constexpr std::int64_t kMaxDepth = kMaxDepthF32;
  static constexpr std::int64_t kTaskRows = 192;
};
template <>
struct Traits<double> {
  static constexpr std::int64_t kMaxDepth = kMaxDepthF64;
  static constexpr std::int64_t kTaskRows = 144;
};

template <typename T>
std::uint64_t scratch_bytes(std::int64_t m, std::int64_t n) noexcept {
  return static_cast<std::uint64_t>((m + std::min(n, kColumnChunk)) * Traits<T>::kMaxDepth) *
         sizeof(T);
}

const Kernels<float>& kernels_of(float, const Pool& pool) { return kernels_f32(pool); }
const Kernels<double>& kernels_of(double, const Pool& pool) { return kernels_f64(pool); }
void run_block(const Kernels<float>& k, const BlockArgs<float, float>& g) { k.block(g); }
void run_block(const Kernels<double>& k, const BlockArgs<double, double>& g) { k.block(g); }
void run_block(const Kernels<float>& k, const BlockArgs<float, double>& g) { k.block_add_f64(g); }

template <typename T, typename Out>
class Multiplier {
 public:
  Multiplier(const Product<T, Out>& product, Pool& pool)
      : p_(product), pool_(pool), kernels_(kernels_of(T{}, pool)) {
    const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(p_.k, Traits<T>::kMaxDepth));
    CORTIQ_DCHECK(p_.triangular == Triangular::kNone || blocks == 1);
    // Equal blocks: 576 is summed as 288 + 288, not 384 + 192.
    depth_ = std::min(p_.k, round_up(ceil_div(p_.k, blocks), 8));
    chunk_ = std::min(p_.n, kColumnChunk);
    task_rows_ = round_up(Traits<T>::kTaskRows, kernels_.mr);
    // Few rows: narrower tiles, so that many workers find work.
    task_cols_ = kTaskCols;
    while (task_cols_ > 64 && ceil_div(p_.m, task_rows_) * ceil_div(chunk_, task_cols_) < 32) {
      task_cols_ /= 2;
    }
    serial_ = pool.threads() == 1 || p_.m * p_.n * p_.k < kSerialWork;
    a_ = make_scratch<T>(round_up(p_.m, kernels_.mr) * depth_);
    b_ = make_scratch<T>(round_up(chunk_, kernels_.nr) * depth_);
  }

  void run() {
    for (std::int64_t k0 = 0; k0 < p_.k; k0 += depth_) {
      const std::int64_t depth = std::min(depth_, p_.k - k0);
      for (std::int64_t n0 = 0; n0 < p_.n; n0 += chunk_) {
        const std::int64_t cols = std::min(chunk_, p_.n - n0);
        pack(k0, depth, n0, cols);
        compute(k0, depth, n0, cols);
      }
    }
  }

 private:
  void pack(std::int64_t k0, std::int64_t depth, std::int64_t n0, std::int64_t cols) {
    const std::int64_t b_step = round_up(256, kernels_.nr);
    const std::int64_t a_tasks = n0 == 0 ? ceil_div(p_.m, task_rows_) : 0;
    for_each(serial_, pool_, a_tasks + ceil_div(cols, b_step), [&](std::int64_t task) {
      if (task < a_tasks) {
        const std::int64_t row = task * task_rows_;
        const std::int64_t count = std::min(task_rows_, p_.m - row);
        T* packed = a_.get() + row * depth;
        kernels_.pack_a({p_.a.at(row, k0), p_.a.stride, p_.a.depth_is_inner, count, depth, packed});
        if (p_.triangular == Triangular::kLowerA)
          clear_above(packed, kernels_.mr, row, count, depth, true);
      } else {
        const std::int64_t col = (task - a_tasks) * b_step;
        const std::int64_t count = std::min(b_step, cols - col);
        T* packed = b_.get() + col * depth;
        kernels_.pack_b(
            {p_.b.at(n0 + col, k0), p_.b.stride, p_.b.depth_is_inner, count, depth, packed});
        if (p_.triangular == Triangular::kLowerB)
          clear_above(packed, kernels_.nr, n0 + col, count, depth, false);
      }
    });
  }

  /// Zeroes the elements above the diagonal that lie in the diagonal square of each sliver; those
  /// further off are skipped by the kernel. line + r against p: rows against columns for A, columns
  /// against rows for B.
  static void clear_above(T* packed, std::int64_t width, std::int64_t line0, std::int64_t count,
                          std::int64_t depth, bool lines_are_rows) {
    for (std::int64_t line = 0; line < count; line += width) {
      T* sliver = packed + line * depth;
      const std::int64_t first = line0 + line;
      for (std::int64_t p = first; p < std::min(first + width, depth); ++p) {
        for (std::int64_t r = 0; r < width; ++r) {
          const bool above = lines_are_rows ? p > first + r : p < first + r;
          if (above) sliver[p * width + r] = T(0);
        }
      }
    }
  }

  void compute(std::int64_t k0, std::int64_t depth, std::int64_t n0, std::int64_t cols) {
    const std::int64_t row_tasks = ceil_div(p_.m, task_rows_);
    const std::int64_t col_tasks = ceil_div(cols, task_cols_);
    for_each(serial_, pool_, row_tasks * col_tasks, [&](std::int64_t task) {
      const std::int64_t row = task / col_tasks * task_rows_;
      const std::int64_t col = task % col_tasks * task_cols_;
      const std::int64_t row_count = std::min(task_rows_, p_.m - row);
      const std::int64_t col_count = std::min(task_cols_, cols - col);
      const bool outside = (p_.region == Region::kUpper && row > n0 + col + col_count - 1) ||
                           (p_.region == Region::kLower && row + row_count - 1 < n0 + col);
      if (outside) return;
      run_block(kernels_,
                BlockArgs<T, Out>{row_count, col_count, depth, a_.get() + row * depth,
                                  b_.get() + col * depth, p_.alpha, k0 == 0 ? p_.beta : T(1),
                                  p_.c + row * p_.stride + n0 + col, p_.stride, row, n0 + col,
                                  p_.region, p_.triangular});
    });
  }

  Product<T, Out> p_;
  Pool& pool_;
  const Kernels<T>& kernels_;
  std::int64_t depth_ = 0;
  std::int64_t chunk_ = 0;
  std::int64_t task_rows_ = 0;
  std::int64_t task_cols_ = 0;
  bool serial_ = false;
  Scratch<T> a_;
  Scratch<T> b_;
};

/// Without depth nothing is added: C = beta*C.
template <typename T>
void scale(const Product<T>& p) {
  for (std::int64_t r = 0; r < p.m; ++r) {
    T* c = p.c + r * p.stride;
    for (std::int64_t j = 0; j < p.n; ++j) c[j] = p.beta == T(0) ? T(0) : p.beta * c[j];
  }
}

template <typename T, typename Out>
void run(const Product<T, Out>& product, Pool& pool) {
  if (product.m <= 0 || product.n <= 0 || product.k <= 0) return;
  Multiplier<T, Out>(product, pool).run();
}

}  // namespace

const Kernels<float>& kernels_f32(const Pool& pool) {
  return CORTIQ_SIMD_DISPATCH(pool.simd(), kernels_f32);
}
const Kernels<double>& kernels_f64(const Pool& pool) {
  return CORTIQ_SIMD_DISPATCH(pool.simd(), kernels_f64);
}

void multiply(const Product<float>& product, Pool& pool) {
  if (product.k <= 0) return scale(product);
  run(product, pool);
}
void multiply(const Product<double>& product, Pool& pool) {
  if (product.k <= 0) return scale(product);
  run(product, pool);
}
void multiply(const Product<float, double>& product, Pool& pool) { run(product, pool); }

std::uint64_t gemm_f32_scratch_bytes(std::int64_t m, std::int64_t n) noexcept {
  return scratch_bytes<float>(m, n);
}
std::uint64_t gemm_f64_scratch_bytes(std::int64_t m, std::int64_t n) noexcept {
  return scratch_bytes<double>(m, n);
}

}  // namespace cortiq::linalg
