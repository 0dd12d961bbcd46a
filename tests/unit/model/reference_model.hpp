// reference_model.hpp: the forward pass written plainly in f64, one token and one head at a time,
// read straight from the header's JSON. Shares no code with the product.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tiny_model.hpp"

namespace cortiq::model::test {

using Values = std::vector<double>;

/// Row-major results of one window.
struct ReferenceRun {
  std::vector<Values>
      layers;     ///< residual stream [tokens, hidden]: after the embedding, after each layer
  Values logits;  ///< [tokens, vocab]
  std::map<std::string, Values>
      inputs;  ///< "LAYER.in", "LAYER.mixout", "LAYER.mlp", "LAYER.down", "head"
};
[[nodiscard]] ReferenceRun run_reference(const MemorySource& source,
                                         const std::vector<std::int32_t>& ids);

}  // namespace cortiq::model::test
