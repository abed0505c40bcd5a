// The config.json that transformers reads, of a model: what read_huggingface() reads back.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/architectures/model.h"

namespace meshwright {

// NotSupportedYet for a model that is not one of transformers' (our own words for mpt and bloom).
nlohmann::json huggingface_config(const Model& model);

}  // namespace meshwright
