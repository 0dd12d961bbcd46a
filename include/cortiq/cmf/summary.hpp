// summary.hpp: what `inspect` shows of an open CMF file. Nothing is hashed or decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cortiq/cmf/reader.hpp"

namespace cortiq::cmf {

struct SectionSummary {
  std::string file;
  std::string name;  ///< "header", "directory", "data", "masks", "vocab", "index"
  std::uint64_t offset = 0;
  std::uint64_t nbytes = 0;
};

struct DTypeSummary {
  DType dtype = DType::kF32;
  std::int64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t nbytes = 0;
};

struct TensorSummary {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::size_t file = 0;      ///< index into Reader::files()
  std::uint64_t offset = 0;  ///< of the payload, from the start of its file
  std::uint64_t nbytes = 0;
  std::uint64_t hash = 0;  ///< as stored in the directory
};

struct Summary {
  std::string arch_name;
  std::string quant_type;  ///< label of the header, not a fact about the tensors
  std::int64_t layers = 0;
  std::uint32_t features = 0;    ///< required_features, all files together
  std::uint64_t file_bytes = 0;  ///< all files together
  std::uint64_t payload_bytes = 0;
  std::uint64_t elements = 0;
  std::vector<SectionSummary> sections;  ///< non-empty sections of each file, by offset
  std::vector<DTypeSummary> dtypes;      ///< present types, by id
  std::vector<TensorSummary> tensors;    ///< in directory order
  std::vector<std::string> masks;        ///< names of the masks
  std::uint32_t mask_index_entries = 0;
  std::size_t skills = 0;
  std::uint64_t vocab_bytes = 0;
  double bits_per_weight =
      0.0;  ///< payload bits per element over all tensors with a decoder; 0 if none
  double matrix_bits_per_weight = 0.0;  ///< the same over tensors of two or more dimensions
};

[[nodiscard]] Summary summarize(const Reader& reader);

/// Why this file must not be quantized, as a clause for a message ("it is a skill file, …"); empty
/// if nothing forbids it (cmf.md section 1.1, features of all shards).
[[nodiscard]] std::string refuse_reason_for_quantize(const Reader& reader);

}  // namespace cortiq::cmf
