// sanitized_source.hpp: a model whose NaN and infinite weights read as zero (float tensors), for
// the calibration forward of a run with --sanitize. Everything else is the wrapped source's.
#pragma once

#include "cortiq/cmf/source.hpp"

namespace cortiq::pipeline {

class SanitizedSource final : public cmf::Source {
 public:
  /// Keeps a reference.
  explicit SanitizedSource(const cmf::Source& source) : source_(source) {}
  const std::filesystem::path& path() const override { return source_.path(); }
  std::vector<std::filesystem::path> files() const override { return source_.files(); }
  const cmf::Header& header() const override { return source_.header(); }
  const std::vector<cmf::TensorInfo>& tensors() const override { return source_.tensors(); }
  std::optional<std::size_t> find(std::string_view name) const override {
    return source_.find(name);
  }
  cmf::Payload payload(std::size_t index) const override;
  void release(std::size_t index) const override { source_.release(index); }
  ByteSpan vocab() const override { return source_.vocab(); }
  ByteSpan masks() const override { return source_.masks(); }
  ByteSpan mask_index() const override { return source_.mask_index(); }

 private:
  const cmf::Source& source_;
};

}  // namespace cortiq::pipeline
