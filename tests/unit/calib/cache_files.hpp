// cache_files.hpp: small Hessian caches for tests, written through the writer or byte by byte.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"

namespace cortiq::test {

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// X^T X of n + 5 random rows, in f64.
inline std::unique_ptr<calib::Hessian> random_hessian(std::int64_t n, unsigned seed) {
  auto hessian = std::make_unique<calib::Hessian>(n);
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> row(static_cast<std::size_t>(n));
  hessian->count = n + 5;
  for (std::int64_t r = 0; r < hessian->count; ++r) {
    for (double& value : row) value = normal(generator);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i; j < n; ++j) {
        hessian->view()(i, j) +=
            row[static_cast<std::size_t>(i)] * row[static_cast<std::size_t>(j)];
      }
    }
  }
  for (std::int64_t i = 0; i < n; ++i) hessian->sum_squares.push_back(hessian->view()(i, i));
  return hessian;
}

/// One entry of a cache.
struct CacheItem {
  std::vector<std::string> names;
  std::shared_ptr<calib::Hessian> hessian;
};

inline void write_cache(const std::filesystem::path& path, const std::vector<CacheItem>& items,
                        const calib::CacheIdentity& identity = {}) {
  calib::HessianCacheWriter writer(path, items.size());
  for (const CacheItem& item : items) writer.add(item.names, *item.hessian);
  writer.commit(identity);
}

/// Builds file bytes value by value.
struct CacheBytes {
  std::string bytes;
  template <typename T>
  CacheBytes& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  CacheBytes& header(std::uint64_t entries) {
    bytes += "CMFHESS1";
    return put(entries);
  }
  CacheBytes& name(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes += text;
    return *this;
  }
  /// One name and the fixed fields; numbers follow by put(double).
  CacheBytes& entry(const std::string& text, std::uint64_t cols, std::uint64_t count,
                    std::uint64_t elements) {
    return put(std::uint32_t{1}).name(text).put(cols).put(count).put(elements);
  }
};

}  // namespace cortiq::test
