// Declares the functions that the source files of the target hyperpod share.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright::interop {

const Rules& hyperpod_rules();

// Returns whether a recipe starts another program than that of the model parallel library: NeMo
// (version 2, or the first launcher's with `model.micro_batch_size`), or fine-tuning with a
// `training_config`.
bool is_other_program(const Settings& settings);
// Returns the rule that reads and writes the sizes of the model.
Rule recipe_model_rule();
// Returns the rule that reads batch sizes, precision, parallelism, recomputation and the optimizer
// of a recipe for NeMo. It writes nothing.
Rule nemo_rule();
// Returns the rule that reads adapters of all recipes but those for fine-tuning of today. It writes
// nothing.
Rule recipe_adapter_rule();

// Returns whether a recipe has a `training_config`, as the newer recipes for fine-tuning have, and
// the rule that reads such a recipe.
bool is_fine_tuning_recipe(const Settings& settings);
Rule fine_tuning_rule();
// Throws InputError for recipes whose training is not known here, such as those of Nova and verl.
// Returns all other settings unchanged.
Settings refuse_other_recipes(Settings settings, const JobDraft& given);

}  // namespace meshwright::interop
