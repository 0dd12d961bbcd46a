// gptq_case.hpp: one golden folder of kind gptq_fold_operator or gptq_tiled (its README tells the
// format).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cortiq/support/view.hpp"

namespace cortiq::test {

struct GptqCase {
  explicit GptqCase(const std::filesystem::path& case_folder) : folder(case_folder) {
    std::ifstream(folder / "case.json") >> json;
    n = json.contains("n") ? json["n"].get<std::int64_t>() : json["cols"].get<std::int64_t>();
    const std::vector<float> upper = read<float>("h_upper.f32");
    h = widen_upper(upper);
    dead = read<std::uint8_t>("dead.bin");
  }

  template <typename T>
  std::vector<T> read(const std::string& name) const {
    std::ifstream in(folder / name, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in),
                                  std::istreambuf_iterator<char>()};
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

  std::vector<double> widen_upper(const std::vector<float>& upper) const {
    std::vector<double> full(static_cast<std::size_t>(n * n), 0.0);
    std::size_t next = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i; j < n; ++j)
        full[static_cast<std::size_t>(i * n + j)] = static_cast<double>(upper.at(next++));
    }
    return full;
  }

  ConstMatrixView<double> hessian() const { return {h.data(), n, n}; }

  /// gptq.md section 3.1: the mean over all channels, a dead one counts as 1.
  double reference_base() const {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += hessian()(i, i) > 0 ? hessian()(i, i) : 1.0;
    return std::max(sum / static_cast<double>(n), 1e-12);
  }

  std::filesystem::path folder;
  nlohmann::json json;
  std::int64_t n = 0;
  std::vector<double> h;  ///< upper triangle, zeros below
  std::vector<std::uint8_t> dead;
};

}  // namespace cortiq::test
