// Declares what the source files of the target hyperpod share.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright::interop {

const Rules& hyperpod_rules();

// Returns whether a recipe starts NeMo (version 2, or the first launcher's with
// `model.micro_batch_size`) instead of the model parallel library's program.
bool is_nemo_recipe(const Settings& settings);
// Returns the rule that reads and writes the sizes of the model.
Rule recipe_model_rule();
// Returns the rule that reads everything but the model of a recipe for NeMo. It writes nothing.
Rule nemo_rule();

}  // namespace meshwright::interop
