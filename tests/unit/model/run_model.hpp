// run_model.hpp: the forward pass with everything it shows recorded, and its comparison with the
// plain reference.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cortiq/model/forward.hpp"
#include "reference_model.hpp"
#include "tiny_model.hpp"

namespace cortiq::model::test {

/// f32 forward of a few layers against f64, relative to the largest value of the row.
inline constexpr double kTolerance = 2e-5;

struct Result {
  std::vector<Values> layers;  ///< hidden states in front of layer 0, then behind each layer
  Values logits;
  std::map<std::string, Values> inputs;  ///< of the linear layers, by the keys of ReferenceRun
};

[[nodiscard]] std::vector<TokenId> random_ids(std::size_t count, std::int64_t vocab, unsigned seed);
[[nodiscard]] Values to_values(ConstMatrixView<float> m);
[[nodiscard]] Result run_model(const MemorySource& source, const Windows& windows, Pool& pool,
                               std::int64_t batch_tokens = 2048);
void expect_close(const Values& want, const Values& got, const std::string& what,
                  double tolerance = kTolerance);
/// One random window with every instruction set. Finishes the source.
void expect_matches_reference(MemorySource& source, std::size_t tokens,
                              double tolerance = kTolerance);
/// A few windows with several Pool sizes and batch sizes. Finishes the source.
void expect_same_bits(MemorySource& source);

}  // namespace cortiq::model::test
