// Writes a model as the config.json that transformers reads. read_huggingface() reads it back.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/architectures/model.h"

namespace meshwright::architectures {

// Returns the config.json. Throws NotSupportedYet for a model from an ONNX file, and for an
// architecture that cannot be written.
nlohmann::json huggingface_config(const Model& model);

}  // namespace meshwright::architectures
