// A pipeline is partitioned into chunks of units, at most one chunk for each unit. The units are
// the embedding, every layer and the head. An encoder and a decoder both have layers and an
// embedding. The norm after a stack of layers is counted with one of these units. A captured model
// has units of its own instead.
#pragma once

#include "models/architectures/model_sizes.h"

namespace meshwright::compiler {

constexpr int layers_to_cut(const ModelSizes& model) {
  return model.has_decoder ? 2 * model.layers : model.layers;
}
constexpr int units_to_cut(const ModelSizes& model) {
  if (model.units > 0) return model.units;
  return layers_to_cut(model) + (model.has_decoder ? 3 : 2);
}

}  // namespace meshwright::compiler
