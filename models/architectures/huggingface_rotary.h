// Rotary positions in a config.json of Hugging Face: their base, how much of a head turns, and how
// longer texts scale the angles (linear, llama3, yarn).
#pragma once

#include "models/architectures/model.h"
#include "models/core/fields.h"

namespace meshwright {

// Sets what begins with `rotary_`, `local_rotary_base`, and what YaRN multiplies scores by. A model
// without rotary positions stays as it is. Errors name the key.
void read_rotary(Fields& fields, Model& model);

}  // namespace meshwright
