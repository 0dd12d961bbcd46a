// sequential_layer.hpp: one layer of both streams of sequential calibration.
#pragma once

#include "sequential.hpp"

namespace cortiq::pipeline {

struct SequentialRun::Layer {
  std::int64_t index;
  model::LayerStream reference;
  model::LayerStream quantized;
};

}  // namespace cortiq::pipeline
