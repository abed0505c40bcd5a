// HyperPod's recipes: what the files of this folder share.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright {

const Rules& hyperpod_rules();

// One that starts NeMo (version 2, or `model.micro_batch_size` of the first launcher), not the
// model parallel library's program.
bool is_nemo_recipe(const Settings& settings);
// The model by its sizes.
Rule recipe_model_rule();
// All of a recipe for NeMo; read only.
Rule nemo_rule();

}  // namespace meshwright
