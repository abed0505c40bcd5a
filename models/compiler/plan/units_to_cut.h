// What a pipeline is cut into, at most a chunk for each: the embedding, every layer and the head;
// of an encoder and a decoder the layers and the embedding of both. (A norm behind a stack goes
// with one of them.)
#pragma once

#include "models/architectures/model_sizes.h"

namespace meshwright {

constexpr int layers_to_cut(const ModelSizes& model) {
  return model.has_decoder ? 2 * model.layers : model.layers;
}
constexpr int units_to_cut(const ModelSizes& model) {
  return layers_to_cut(model) + (model.has_decoder ? 3 : 2);
}

}  // namespace meshwright
