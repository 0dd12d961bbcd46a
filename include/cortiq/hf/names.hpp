// names.hpp: tensor names of Hugging Face checkpoints -> names of the container, and fused tensors
// -> their parts (cmf.md sections 9.3 and 9.4). Pure text and index arithmetic: no values are
// touched here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::hf {

/// The container's name; nullopt for a tensor that is dropped (vision and audio towers, rotary
/// tables).
[[nodiscard]] std::optional<std::string> map_name(std::string_view name);

/// Numbers of the architecture that decide how a fused tensor is cut. 0 = the model has none.
struct FusedGeometry {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t expert_width = 0;  ///< moe_intermediate_size
  std::int64_t linear_key_heads = 0;
  std::int64_t linear_value_heads = 0;
  std::int64_t linear_key_dim = 0;
  std::int64_t linear_value_dim = 0;
};

/// Consecutive elements of the source tensor.
struct Run {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// One tensor of the container as elements of one source tensor.
struct Part {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<Run>
      runs;  ///< row-major content in order; each run a whole number of columns when transposed
  std::int64_t column_stride = 0;  ///< 0: runs are the content. Otherwise shape [R,C] with element
                                   ///< (r,c) at runs[0].begin + c*column_stride + r of the source
};

/// @param name   mapped name    @param shape  of the source tensor
/// Returns one part that covers everything for a tensor that is not fused. Throws Error{kInput}
/// naming the tensor for a fused tensor whose shape does not fit the geometry.
[[nodiscard]] std::vector<Part> split_fused(const std::string& name,
                                            const std::vector<std::int64_t>& shape,
                                            const FusedGeometry& geometry);

/// True if the tensor is stored as f32 whatever the profile (codecs.md section 10.3).
[[nodiscard]] bool keeps_f32(std::string_view name) noexcept;

}  // namespace cortiq::hf
