// sha256.hpp: digest of a byte string (FIPS 180-4), for comparison with the digests of the golden
// vectors.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cortiq::test {

class Sha256 {
 public:
  Sha256() {
    // Constants are the fractions of square and cube roots of the first primes.
    std::size_t count = 0;
    for (std::uint32_t p = 2; count < 64; ++p) {
      if (!is_prime(p)) continue;
      const auto prime = static_cast<long double>(p);
      if (count < 8) state_[count] = fraction(std::sqrt(prime));
      round_[count++] = fraction(std::cbrt(prime));
    }
  }

  [[nodiscard]] std::string hex(std::span<const std::byte> message) {
    std::vector<std::uint8_t> padded;
    padded.reserve(message.size() + 72);
    for (const std::byte b : message) padded.push_back(std::to_integer<std::uint8_t>(b));
    padded.push_back(0x80);
    while (padded.size() % 64 != 56) padded.push_back(0);
    const std::uint64_t bits = 8 * message.size();
    for (int i = 7; i >= 0; --i) padded.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
    for (std::size_t at = 0; at < padded.size(); at += 64) block(padded.data() + at);
    std::string text;
    for (const std::uint32_t word : state_) {
      for (int i = 7; i >= 0; --i) text += "0123456789abcdef"[(word >> (4 * i)) & 15U];
    }
    return text;
  }

 private:
  static bool is_prime(std::uint32_t n) {
    for (std::uint32_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  }
  static std::uint32_t fraction(long double x) {
    return static_cast<std::uint32_t>((x - std::floor(x)) * 4294967296.0L);
  }

  void block(const std::uint8_t* in) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t k = 0; k < 4; ++k) w[i] = (w[i] << 8) | in[4 * i + k];
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15];
      const std::uint32_t b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    std::array<std::uint32_t, 8> s = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t e = s[4];
      const std::uint32_t a = s[0];
      const std::uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                               ((e & s[5]) ^ (~e & s[6])) + round_[i] + w[i];
      const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                               ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) state_[i] += s[i];
  }

  std::array<std::uint32_t, 8> state_{};
  std::array<std::uint32_t, 64> round_{};
};

inline std::string sha256_hex(std::span<const std::byte> message) { return Sha256().hex(message); }

}  // namespace cortiq::test
