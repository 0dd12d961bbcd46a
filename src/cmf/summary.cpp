#include "cortiq/cmf/summary.hpp"

#include <algorithm>
#include <map>

#include "cortiq/cmf/features.hpp"
#include "masks.hpp"
#include "reader_state.hpp"

namespace cortiq::cmf {
namespace {

std::uint32_t features_of(const Reader::State& state) {
  std::uint32_t features = 0;
  for (const Shard& shard : state.shards) features |= shard.envelope.required_features;
  return features;
}

void add_sections(const Shard& shard, std::vector<SectionSummary>* sections) {
  const Envelope& e = shard.envelope;
  const std::string file = shard.file.path().string();
  const auto begin = static_cast<std::ptrdiff_t>(sections->size());
  const auto add = [&](const char* name, const Range& range) {
    if (range.length > 0) sections->push_back({file, name, range.offset, range.length});
  };
  add("header", e.header);
  add("directory", e.directory);
  add("data", e.data);
  add("masks", e.masks);
  add("vocab", e.vocab);
  add("index", e.index);
  std::stable_sort(
      sections->begin() + begin, sections->end(),
      [](const SectionSummary& a, const SectionSummary& b) { return a.offset < b.offset; });
}

void add_tensors(const Reader::State& state, Summary* summary) {
  std::map<DType, DTypeSummary> by_dtype;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const TensorInfo& info = state.tensors[i];
    const Location& at = state.locations[i];
    summary->tensors.push_back({info.name, info.dtype, info.shape, at.shard, at.offset, info.nbytes,
                                info.hash.value_or(0)});
    const auto elements = static_cast<std::uint64_t>(info.elements());
    summary->payload_bytes += info.nbytes;
    summary->elements += elements;
    DTypeSummary& row = by_dtype[info.dtype];
    row.dtype = info.dtype;
    row.tensors += 1;
    row.elements += elements;
    row.nbytes += info.nbytes;
  }
  for (const auto& [dtype, row] : by_dtype) summary->dtypes.push_back(row);
}

double bits_per_weight(const std::vector<TensorInfo>& tensors, std::size_t min_rank) {
  double bits = 0.0;
  double elements = 0.0;
  for (const TensorInfo& tensor : tensors) {
    if (!has_decoder(tensor.dtype) || tensor.shape.size() < min_rank) continue;
    bits += 8.0 * static_cast<double>(tensor.nbytes);
    elements += static_cast<double>(tensor.elements());
  }
  return elements > 0.0 ? bits / elements : 0.0;
}

}  // namespace

Summary summarize(const Reader& reader) {
  const Reader::State& state = reader.state();
  const Json& header = reader.header().json();
  const std::string where = reader.path().string();
  const Shard& first = state.shards.front();
  Summary summary;
  summary.arch_name = reader.header().arch_name();
  summary.quant_type = header.at("quant_type").get<std::string>();
  summary.layers = reader.header().arch().at("num_layers").get<std::int64_t>();
  summary.features = features_of(state);
  for (const Shard& shard : state.shards) {
    summary.file_bytes += shard.file.bytes().size();
    add_sections(shard, &summary.sections);
  }
  add_tensors(state, &summary);
  summary.masks = read_mask_names(first.section(first.envelope.masks), where);
  summary.mask_index_entries = read_mask_index_count(first.section(first.envelope.index), where);
  const auto skills = header.find("skills");
  if (skills != header.end() && skills->is_array()) summary.skills = skills->size();
  summary.vocab_bytes = first.envelope.vocab.length;
  summary.bits_per_weight = bits_per_weight(state.tensors, 0);
  summary.matrix_bits_per_weight = bits_per_weight(state.tensors, 2);
  return summary;
}

std::string refuse_reason_for_quantize(const Reader& reader) {
  return refuse_reason_for_quantize(features_of(reader.state()));
}

}  // namespace cortiq::cmf
