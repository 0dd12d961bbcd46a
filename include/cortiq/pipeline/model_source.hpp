// model_source.hpp: opens what the user named as a model, decodes single tensors, guards output
// paths.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"
#include "cortiq/codec/decode.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::pipeline {

/// What to do with NaN and infinite weights.
enum class NonFinite { kRefuse, kSanitize };

/// A CMF file (shard 1 opens all shards) or a Hugging Face folder (presented as f16, like
/// `convert`). Throws what cmf::Reader and hf::Folder throw; Error{kIo} if the path does not exist.
/// With kSanitize a folder passes NaN and infinities on, for callers that replace them.
[[nodiscard]] std::unique_ptr<cmf::Source> open_source(const std::filesystem::path& path,
                                                       NonFinite non_finite = NonFinite::kRefuse);

/// What is doubtful about a model and does not stop a run: settings that config.json states twice and differently.
[[nodiscard]] std::vector<std::string> source_warnings(const cmf::Source& source);

/// Why this model must not be quantized (partial skill file, rotated basis, frozen genome…); empty
/// if it may.
[[nodiscard]] std::string refusal_to_quantize(const cmf::Source& source);

/// What a CMF file has damaged besides payloads (cmf::section_problems), for a run that takes it as it is.
[[nodiscard]] std::vector<std::string> section_problems(const cmf::Source& source);

/// A decoded tensor, row-major; rank 1 is one row.
struct DecodedTensor {
  std::vector<float> values;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  [[nodiscard]] ConstMatrixView<float> view() const { return {values.data(), rows, cols}; }
};
/// Errors name the tensor.
[[nodiscard]] DecodedTensor decode_tensor(const cmf::Source& source, std::size_t index, Pool& pool);

/// kRefuse: Error{kNumeric} naming tensor, position and value. kSanitize: sets them to 0 and
/// returns how many.
std::int64_t check_finite(DecodedTensor& tensor, std::string_view name, NonFinite policy,
                          Pool& pool);

/// Throws Error{kUsage} if `output`, or the temporary file beside it, is one of `inputs`.
void check_no_input(const std::filesystem::path& output,
                    const std::vector<std::filesystem::path>& inputs);
/// Throws Error{kUsage} if `output` is one of `inputs` (same file by any path, symbolic or hard
/// link), or Error{kIo} if its folder does not exist or cannot be written, or as check_replaceable().
void check_output_path(const std::filesystem::path& output,
                       const std::vector<std::filesystem::path>& inputs);

/// sha256 over names, dtypes, shapes and payload hashes: equal for a folder and the file that
/// `convert` makes of it.
[[nodiscard]] std::string model_identity(const cmf::Source& source, Pool& pool);

}  // namespace cortiq::pipeline
