#include "packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "cortiq/codec/ladder.hpp"
#include "device_arrays.hpp"
#include "device_fixture.hpp"

namespace cortiq::device {
namespace {

using test::DeviceArrays;

class PackingTest : public test::DeviceTest {};

constexpr std::int64_t kGroup = 32;

/// Below `bound`.
std::uint32_t draw(std::mt19937& generator, std::uint32_t bound) {
  return static_cast<std::uint32_t>(generator() % bound);
}

/// A stack of rows with random codes; some groups are zero.
struct Stack {
  std::int64_t rows, groups;
  int bits;
  std::vector<std::uint8_t> natural;  ///< [rows][n]
  std::vector<std::uint32_t> nibbles, rungs, params, position;
};

Stack make_stack(std::int64_t rows, std::int64_t groups, int bits) {
  std::mt19937 generator(static_cast<std::uint32_t>(100 * rows + groups));
  Stack s{rows, groups, bits, {}, {}, {}, {}, {}};
  const auto n = static_cast<std::size_t>(kGroup * groups);
  s.position.resize(n);
  std::iota(s.position.begin(), s.position.end(), 0U);
  std::ranges::shuffle(s.position, generator);
  s.nibbles.assign(static_cast<std::size_t>(rows) * n / 8, 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    s.params.push_back(static_cast<std::uint32_t>(generator()));
    for (std::int64_t g = 0; g < groups; ++g) {
      const bool zero = draw(generator, 5) == 0;
      s.rungs.push_back(zero ? layout::kNoRung : 1 + draw(generator, 31));
      for (std::int64_t i = 0; i < kGroup; ++i) {
        const std::uint32_t any = draw(generator, 1U << static_cast<unsigned>(bits));
        s.natural.push_back(static_cast<std::uint8_t>(zero ? (bits == 4 ? 8 : 0) : any));
      }
    }
    for (std::size_t c = 0; c < n; ++c) {
      const std::size_t p = static_cast<std::size_t>(r) * n + s.position[c];
      s.nibbles[p / 8] |= std::uint32_t{s.natural[static_cast<std::size_t>(r) * n + c]} << (4 * (p % 8));
    }
  }
  return s;
}

/// Byte by byte, as the format says.
std::vector<std::uint8_t> packed_on_host(const Stack& s, std::int64_t first, std::int64_t rows) {
  const std::int64_t n = kGroup * s.groups;
  const codec::PlaneLayout plane = codec::plane_layout(s.bits, rows, n);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>((plane.bytes + 3) / 4 * 4), 0);
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const auto bit = static_cast<std::size_t>(i * s.bits);
    const unsigned code = s.natural[static_cast<std::size_t>(first * n + i)];
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] | (code << (bit % 8)));
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(bytes.data() + plane.params_offset + 4 * r, &s.params[static_cast<std::size_t>(first + r)], 4);
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const std::uint32_t rung = s.rungs[static_cast<std::size_t>((first + r) * s.groups + g)];
      codec::put_rung(bytes.data() + plane.rungs_offset + r * plane.rung_row_bytes, g,
                      rung == layout::kNoRung ? 0 : rung);
    }
  }
  return bytes;
}

std::int64_t zero_groups(const Stack& s, std::int64_t first, std::int64_t rows) {
  return std::count(s.rungs.begin() + first * s.groups, s.rungs.begin() + (first + rows) * s.groups,
                    layout::kNoRung);
}

TEST_F(PackingTest, payload_is_that_of_the_format_for_each_tensor_of_a_stack) {
  DeviceArrays arrays(context_);
  for (const int bits : {4, 2}) {
    for (const auto& [rows, groups] : {std::pair{1, 1}, {3, 3}, {5, 8}, {7, 13}, {40, 129}}) {
      const Stack s = make_stack(rows + 3, groups, bits);
      const auto codes = arrays.upload(s.nibbles), rungs = arrays.upload(s.rungs),
                 params = arrays.upload(s.params), position = arrays.upload(s.position);
      for (const std::int64_t first : {0, 2}) {
        Packing packing;
        packing.bits = bits;
        packing.first_row = first;
        packing.rows = rows;
        packing.groups = groups;
        const std::vector<std::uint8_t> expected = packed_on_host(s, first, rows);
        EXPECT_EQ((payload_bytes(packing) + 3) / 4 * 4, expected.size());
        const auto payload = arrays.poisoned(static_cast<std::int64_t>(expected.size() / 4));
        const auto count = arrays.upload(std::vector<std::uint32_t>{7, 0});
        packing.codes = codes.address();
        packing.rungs = rungs.address();
        packing.params = params.address();
        packing.position = position.address();
        packing.payload = payload.address();
        packing.zero_groups = count.address();
        pack_payload(arrays.engine, arrays.stream, packing);
        arrays.stream.barrier();
        const auto words = arrays.words(payload);
        std::uint32_t zeros = 0;
        download(arrays.engine, arrays.stream, count, 0, std::as_writable_bytes(std::span(&zeros, 1)));
        std::vector<std::uint8_t> bytes(4 * words.size());
        std::memcpy(bytes.data(), words.data(), bytes.size());
        EXPECT_EQ(bytes, expected) << "bits " << bits << " rows " << rows << " groups " << groups;
        EXPECT_EQ(zeros, 7 + zero_groups(s, first, rows));
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::device
