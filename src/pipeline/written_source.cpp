#include "written_source.hpp"

namespace cortiq::pipeline {

WrittenSource::WrittenSource(const cmf::Source& input, const cmf::Writer& writer)
    : input_(input), writer_(writer), tensors_(input.tensors()), written_(tensors_.size(), 0) {
  CORTIQ_ASSERT(writer.tensors().size() == tensors_.size());
  refresh();
}

void WrittenSource::refresh() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (written_[i] != 0 || !writer_.is_written(i)) continue;
    written_[i] = 1;
    tensors_[i].dtype = writer_.tensors()[i].dtype;
    tensors_[i].nbytes = writer_.tensors()[i].nbytes;
    tensors_[i].hash.reset();
  }
}

cmf::Payload WrittenSource::payload(std::size_t index) const {
  if (written_[index] == 0) return input_.payload(index);
  return cmf::Payload(writer_.read_back(index));
}

}  // namespace cortiq::pipeline
