// Reads and writes rotary positions of a config.json of Hugging Face: their base, the share of a
// head that is rotated, and the scaling of angles for longer texts (linear, llama3, yarn).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/architectures/model.h"
#include "models/core/fields.h"

namespace meshwright::architectures {

// Sets the fields that begin with `rotary_`, local_rotary_base, and score_factor if YaRN scales the
// scores. A model without rotary positions stays as it is. Errors name the key.
void read_rotary(Fields& fields, Model& model);
void write_rotary(const Model& model, nlohmann::json& config);

}  // namespace meshwright::architectures
