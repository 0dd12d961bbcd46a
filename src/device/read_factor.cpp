#include <cmath>
#include <cstring>

#include "cortiq/support/half.hpp"
#include "factor.hpp"

namespace cortiq::device {

std::vector<double> read_factor(const Engine& engine, const DeviceFactor& factor) {
  vulkan::Stream stream(engine.shared_context());
  const std::int64_t n = factor.n();
  const std::int64_t size = factor.size;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<float> band(at(size * kBlockColumns));
  download(engine, stream, factor.band, 0, std::as_writable_bytes(std::span(band)));
  std::vector<std::uint32_t> lines(at(size * size));
  download(engine, stream, factor.u.lines, 0, std::as_writable_bytes(std::span(lines)));
  const double unit = 1.0 / std::sqrt(factor.scaling.base);
  const auto from_line = [&](std::int64_t j, std::int64_t k) {
    const std::uint32_t* line = lines.data() + at((j / 32 * size + k) * 32);
    const auto t = at(j % 32);
    if (!engine.split()) {
      float value = 0;
      std::memcpy(&value, line + t, sizeof value);
      return static_cast<double>(value);
    }
    const auto half = [&](std::size_t word) {
      const auto bits = static_cast<std::uint16_t>(line[word + t / 2] >> (t % 2 * 16));
      return static_cast<double>(f16_to_f32(bits));
    };
    return (half(0) + half(16)) / static_cast<double>(factor.u.scale);
  };
  std::vector<double> u(at(n * n), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t k = j; k < n; ++k) {
      const bool in_band = j / kBlockColumns == k / kBlockColumns;
      const double value = in_band ? static_cast<double>(band[at(j * kBlockColumns + k % kBlockColumns)])
                                   : from_line(j, k);
      u[at(j * n + k)] = value * unit;
    }
  }
  return u;
}

}  // namespace cortiq::device
