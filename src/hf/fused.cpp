#include <numeric>

#include "cortiq/hf/names.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::hf {
namespace {

using Shape = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& name, const Shape& shape, const std::string& expected) {
  fail(ErrorKind::kInput,
       "tensor {}: shape [{}] does not fit config.json, which asks for {}; the folder mixes two "
       "models",
       name, fmt::join(shape, ", "), expected);
}

/// `rows` rows of a matrix with `cols` columns, from row `first` on.
Run rows_of(std::int64_t first, std::int64_t rows, std::int64_t cols) {
  return {first * cols, rows * cols};
}

Part whole(const std::string& name, const Shape& shape) {
  const std::int64_t count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return {name, shape, {{0, count}}, 0};
}

std::vector<Part> split_qkv(const std::string& name, const std::string& prefix, const Shape& shape,
                            const FusedGeometry& g) {
  const std::int64_t q = g.heads * g.head_dim;
  const std::int64_t kv = g.kv_heads * g.head_dim;
  if (shape[0] != q + 2 * kv)
    refuse(name, shape, fmt::format("{} rows (query {} + 2 x {})", q + 2 * kv, q, kv));
  const std::int64_t cols = shape[1];
  return {{prefix + "q_proj.weight", {q, cols}, {rows_of(0, q, cols)}, 0},
          {prefix + "k_proj.weight", {kv, cols}, {rows_of(q, kv, cols)}, 0},
          {prefix + "v_proj.weight", {kv, cols}, {rows_of(q + kv, kv, cols)}, 0}};
}

std::vector<Part> split_gate_up(const std::string& name, const std::string& prefix,
                                const Shape& shape) {
  if (shape[0] % 2 != 0) refuse(name, shape, "an even number of rows (gate, then up)");
  const std::int64_t half = shape[0] / 2;
  return {{prefix + "gate_proj.weight", {half, shape[1]}, {rows_of(0, half, shape[1])}, 0},
          {prefix + "up_proj.weight", {half, shape[1]}, {rows_of(half, half, shape[1])}, 0}};
}

/// Experts stacked in one tensor [E, 2m, H] or, transposed, [E, H, 2m]. Row-major wins where both
/// fit.
std::vector<Part> split_expert_gate_up(const std::string& name, const std::string& prefix,
                                       const Shape& shape, std::int64_t m) {
  const bool row_major = shape[1] == 2 * m;
  if (m == 0 || (!row_major && shape[2] != 2 * m))
    refuse(name, shape, fmt::format("2 x {} gate and up rows", m));
  const std::int64_t hidden = row_major ? shape[2] : shape[1];
  std::vector<Part> parts;
  for (std::int64_t e = 0; e < shape[0]; ++e) {
    const std::int64_t base = e * shape[1] * shape[2];
    for (std::int64_t which = 0; which < 2; ++which) {
      const std::string part =
          fmt::format("{}experts.{}.{}_proj.weight", prefix, e, which == 0 ? "gate" : "up");
      const std::int64_t begin = base + (row_major ? which * m * hidden : which * m);
      parts.push_back({part, {m, hidden}, {{begin, m * hidden}}, row_major ? 0 : 2 * m});
    }
  }
  return parts;
}

/// [E, H, m] or, transposed, [E, m, H].
std::vector<Part> split_expert_down(const std::string& name, const std::string& prefix,
                                    const Shape& shape, std::int64_t m) {
  const bool row_major = shape[2] == m;
  if (m == 0 || (!row_major && shape[1] != m))
    refuse(name, shape, fmt::format("{} columns per expert", m));
  const std::int64_t hidden = row_major ? shape[1] : shape[2];
  std::vector<Part> parts;
  for (std::int64_t e = 0; e < shape[0]; ++e) {
    parts.push_back({fmt::format("{}experts.{}.down_proj.weight", prefix, e),
                     {hidden, m},
                     {{e * hidden * m, hidden * m}},
                     row_major ? 0 : hidden});
  }
  return parts;
}

/// Rows come in groups, one per key head: [q dk][k dk][v r*dv][z r*dv].
std::vector<Part> split_linear_qkvz(const std::string& name, const std::string& prefix,
                                    const Shape& shape, const FusedGeometry& g) {
  if (g.linear_key_heads == 0 || g.linear_value_heads % g.linear_key_heads != 0) {
    refuse(name, shape, "linear attention heads that are not there");
  }
  const std::int64_t key_rows = g.linear_key_dim;
  const std::int64_t value_rows = g.linear_value_heads / g.linear_key_heads * g.linear_value_dim;
  const std::int64_t group = 2 * key_rows + 2 * value_rows;
  if (shape[0] != group * g.linear_key_heads)
    refuse(name, shape, fmt::format("{} rows", group * g.linear_key_heads));
  const std::int64_t cols = shape[1];
  Part qkv{prefix + "in_proj_qkv.weight", {(group - value_rows) * g.linear_key_heads, cols}, {}, 0};
  Part z{prefix + "in_proj_z.weight", {value_rows * g.linear_key_heads, cols}, {}, 0};
  const auto collect = [&](Part& part, std::int64_t offset, std::int64_t rows) {
    for (std::int64_t head = 0; head < g.linear_key_heads; ++head) {
      part.runs.push_back(rows_of(head * group + offset, rows, cols));
    }
  };
  collect(qkv, 0, key_rows);
  collect(qkv, key_rows, key_rows);
  collect(qkv, 2 * key_rows, value_rows);
  collect(z, 2 * key_rows + value_rows, value_rows);
  return {std::move(qkv), std::move(z)};
}

std::vector<Part> split_linear_ba(const std::string& name, const std::string& prefix,
                                  const Shape& shape, const FusedGeometry& g) {
  if (g.linear_key_heads == 0 || g.linear_value_heads % g.linear_key_heads != 0 ||
      shape[0] != 2 * g.linear_value_heads) {
    refuse(name, shape, fmt::format("{} rows", 2 * g.linear_value_heads));
  }
  const std::int64_t rows = g.linear_value_heads / g.linear_key_heads;
  Part b{prefix + "in_proj_b.weight", {g.linear_value_heads, shape[1]}, {}, 0};
  Part a{prefix + "in_proj_a.weight", {g.linear_value_heads, shape[1]}, {}, 0};
  for (std::int64_t head = 0; head < g.linear_key_heads; ++head) {
    b.runs.push_back(rows_of(2 * rows * head, rows, shape[1]));
    a.runs.push_back(rows_of(2 * rows * head + rows, rows, shape[1]));
  }
  return {std::move(b), std::move(a)};
}

}  // namespace

std::vector<Part> split_fused(const std::string& name, const Shape& shape,
                              const FusedGeometry& geometry) {
  const auto prefix_before = [&](std::string_view suffix) {
    return name.substr(0, name.size() - suffix.size());
  };
  const std::string_view text = name;
  if (shape.size() == 2) {
    constexpr std::string_view kQkv = "qkv_proj.weight";
    if (text.ends_with(".self_attn.qkv_proj.weight"))
      return split_qkv(name, prefix_before(kQkv), shape, geometry);
    constexpr std::string_view kGateUp = "gate_up_proj.weight";
    if (text.ends_with(".mlp.gate_up_proj.weight"))
      return split_gate_up(name, prefix_before(kGateUp), shape);
    constexpr std::string_view kQkvz = "in_proj_qkvz.weight";
    if (text.ends_with(".linear_attn.in_proj_qkvz.weight")) {
      return split_linear_qkvz(name, prefix_before(kQkvz), shape, geometry);
    }
    constexpr std::string_view kBa = "in_proj_ba.weight";
    if (text.ends_with(".linear_attn.in_proj_ba.weight"))
      return split_linear_ba(name, prefix_before(kBa), shape, geometry);
  }
  if (shape.size() == 3) {
    constexpr std::string_view kExpertGateUp = "experts.gate_up_proj";
    if (text.ends_with(".experts.gate_up_proj")) {
      return split_expert_gate_up(name, prefix_before(kExpertGateUp), shape, geometry.expert_width);
    }
    constexpr std::string_view kExpertDown = "experts.down_proj";
    if (text.ends_with(".experts.down_proj")) {
      return split_expert_down(name, prefix_before(kExpertDown), shape, geometry.expert_width);
    }
  }
  return {whole(name, shape)};
}

}  // namespace cortiq::hf
