// packing.hpp: copies lines of a matrix into the slivers of kernels.hpp. Included by *.simd.cpp
// only.
#pragma once

#include "kernels.hpp"
#include "vec.hpp"

namespace cortiq::linalg::CORTIQ_SIMD {

/// Four rows of four elements, transposed: target[p*target_stride + r] = source[r*stride + p].
template <typename T>
CORTIQ_INLINE void transpose4(const T* source, std::int64_t stride, T* target,
                              std::int64_t target_stride) {
  typedef T V4 __attribute__((vector_size(4 * sizeof(T))));
  V4 r0, r1, r2, r3;
  __builtin_memcpy(&r0, source, sizeof(V4));
  __builtin_memcpy(&r1, source + stride, sizeof(V4));
  __builtin_memcpy(&r2, source + 2 * stride, sizeof(V4));
  __builtin_memcpy(&r3, source + 3 * stride, sizeof(V4));
  const V4 low01 = __builtin_shufflevector(r0, r1, 0, 4, 2, 6);
  const V4 high01 = __builtin_shufflevector(r0, r1, 1, 5, 3, 7);
  const V4 low23 = __builtin_shufflevector(r2, r3, 0, 4, 2, 6);
  const V4 high23 = __builtin_shufflevector(r2, r3, 1, 5, 3, 7);
  const V4 c0 = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  const V4 c1 = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  const V4 c2 = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  const V4 c3 = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
  __builtin_memcpy(target, &c0, sizeof(V4));
  __builtin_memcpy(target + target_stride, &c1, sizeof(V4));
  __builtin_memcpy(target + 2 * target_stride, &c2, sizeof(V4));
  __builtin_memcpy(target + 3 * target_stride, &c3, sizeof(V4));
}

/// The same for two rows of four elements.
template <typename T>
CORTIQ_INLINE void transpose2(const T* source, std::int64_t stride, T* target,
                              std::int64_t target_stride) {
  typedef T V4 __attribute__((vector_size(4 * sizeof(T))));
  V4 r0, r1;
  __builtin_memcpy(&r0, source, sizeof(V4));
  __builtin_memcpy(&r1, source + stride, sizeof(V4));
  const V4 even = __builtin_shufflevector(r0, r1, 0, 4, 2, 6);
  const V4 odd = __builtin_shufflevector(r0, r1, 1, 5, 3, 7);
  T pairs[8];
  __builtin_memcpy(pairs, &even, sizeof(V4));
  __builtin_memcpy(pairs + 4, &odd, sizeof(V4));
  __builtin_memcpy(target, pairs, 2 * sizeof(T));
  __builtin_memcpy(target + target_stride, pairs + 4, 2 * sizeof(T));
  __builtin_memcpy(target + 2 * target_stride, pairs + 2, 2 * sizeof(T));
  __builtin_memcpy(target + 3 * target_stride, pairs + 6, 2 * sizeof(T));
}

/// A full sliver from rows that run along the depth. ahead: the next sliver follows in the source;
/// its lines are fetched meanwhile, because each row is too short for the processor to see a
/// stream.
template <typename T, int Width>
void pack_transposed(const T* source, std::int64_t stride, std::int64_t depth, bool ahead,
                     T* packed) {
  constexpr int kQuads = Width / 4 * 4;
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  std::int64_t p = 0;
  for (; p + 4 <= depth; p += 4) {
    if (ahead && p % kLine == 0) {
      CORTIQ_UNROLL
      for (int r = 0; r < Width; ++r) __builtin_prefetch(source + (Width + r) * stride + p, 0);
    }
    CORTIQ_UNROLL
    for (int r = 0; r < kQuads; r += 4) {
      transpose4(source + r * stride + p, stride, packed + p * Width + r, Width);
    }
    if constexpr (Width % 4 == 2) {
      transpose2(source + kQuads * stride + p, stride, packed + p * Width + kQuads, Width);
    }
    static_assert(Width % 2 == 0);
  }
  for (; p < depth; ++p) {
    for (int r = 0; r < Width; ++r) packed[p * Width + r] = source[r * stride + p];
  }
}

/// The last sliver, with fewer than Width lines; the others become zero.
template <typename T, int Width>
void pack_edge(const PackArgs<T>& args, const T* source, std::int64_t lines, T* packed) {
  const std::int64_t line_step = args.depth_is_inner ? args.stride : 1;
  const std::int64_t depth_step = args.depth_is_inner ? 1 : args.stride;
  for (std::int64_t p = 0; p < args.depth; ++p) {
    for (std::int64_t r = 0; r < Width; ++r) {
      packed[p * Width + r] = r < lines ? source[r * line_step + p * depth_step] : T(0);
    }
  }
}

/// Back from a sliver to rows that run along the depth; only `lines` rows are written.
template <typename T, int Width>
void unpack_transposed(const T* packed, std::int64_t lines, std::int64_t depth, T* target,
                       std::int64_t stride) {
  const std::int64_t quads = lines / 4 * 4;
  std::int64_t p = 0;
  for (; p + 4 <= depth; p += 4) {
    for (std::int64_t r = 0; r < quads; r += 4) {
      transpose4(packed + p * Width + r, Width, target + r * stride + p, stride);
    }
  }
  for (std::int64_t r = 0; r < lines; ++r) {
    for (std::int64_t q = r < quads ? p : 0; q < depth; ++q) {
      target[r * stride + q] = packed[q * Width + r];
    }
  }
}

/// Whole slivers from rows that run across the depth. Several at a time: a short piece of each row
/// would cost a page and a line of its own.
template <typename T, int Width>
void pack_rows(const PackArgs<T>& args, std::int64_t slivers) {
  constexpr std::int64_t kTogether = 4;
  for (std::int64_t first = 0; first < slivers; first += kTogether) {
    const std::int64_t last = first + kTogether < slivers ? first + kTogether : slivers;
    for (std::int64_t p = 0; p < args.depth; ++p) {
      const T* row = args.source + p * args.stride;
      for (std::int64_t sliver = first; sliver < last; ++sliver) {
        __builtin_memcpy(args.packed + (sliver * args.depth + p) * Width, row + sliver * Width,
                         Width * sizeof(T));
      }
    }
  }
}

template <typename T, int Width>
void pack(const PackArgs<T>& args) {
  const std::int64_t whole = args.count / Width;
  if (!args.depth_is_inner) {
    pack_rows<T, Width>(args, whole);
  } else {
    for (std::int64_t sliver = 0; sliver < whole; ++sliver) {
      pack_transposed<T, Width>(args.source + sliver * Width * args.stride, args.stride, args.depth,
                                sliver + 1 < whole, args.packed + sliver * Width * args.depth);
    }
  }
  const std::int64_t line = whole * Width;
  if (line == args.count) return;
  pack_edge<T, Width>(args, args.source + line * (args.depth_is_inner ? args.stride : 1),
                      args.count - line, args.packed + line * args.depth);
}

}  // namespace cortiq::linalg::CORTIQ_SIMD
