// written_source.hpp: the output of a run as far as it is written, the input's tensors otherwise:
// what the quantized stream of sequential calibration computes with. Payloads are read back from
// the unfinished file, so a stage sees exactly what a reader of the output will see.
#pragma once

#include <vector>

#include "cortiq/cmf/source.hpp"
#include "cortiq/cmf/writer.hpp"

namespace cortiq::pipeline {

class WrittenSource final : public cmf::Source {
 public:
  /// Keeps references. The writer's tensors are those of `input`, in the same order.
  WrittenSource(const cmf::Source& input, const cmf::Writer& writer);
  /// Takes over what has been written since; not while another thread reads this source.
  void refresh();

  const std::filesystem::path& path() const override { return input_.path(); }
  std::vector<std::filesystem::path> files() const override { return input_.files(); }
  const cmf::Header& header() const override { return input_.header(); }
  const std::vector<cmf::TensorInfo>& tensors() const override { return tensors_; }
  std::optional<std::size_t> find(std::string_view name) const override {
    return input_.find(name);
  }
  cmf::Payload payload(std::size_t index) const override;
  void release(std::size_t index) const override { input_.release(index); }
  ByteSpan vocab() const override { return input_.vocab(); }
  ByteSpan masks() const override { return input_.masks(); }
  ByteSpan mask_index() const override { return input_.mask_index(); }

 private:
  const cmf::Source& input_;
  const cmf::Writer& writer_;
  std::vector<cmf::TensorInfo> tensors_;
  std::vector<char> written_;
};

}  // namespace cortiq::pipeline
