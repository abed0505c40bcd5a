// Declares the functions that the targets of Megatron-LM, Megatron-Bridge and NeMo share.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/frameworks/framework.h"
#include "models/compiler/frameworks/megatron.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

Rule megatron_model_rule();
Rule megatron_stages_rule();  // comes after the rule of the model
// Returns the rules of `parallelism`, which come after those of the model, the batch and the
// precision.
Rules megatron_parallelism_rules();

// Returns settings as words of a command line: {"--tensor-model-parallel-size", "8", "--bf16",
// ...}. A setting with the value true is a flag without a value.
std::vector<std::string> words_of_arguments(const Settings& settings);

// Returns the rules, which have the names of Megatron-LM's arguments without their dashes.
const Rules& megatron_rules();

// Renames arguments of older versions and of forks to those of today, before the rules read them.
// Throws InputError for the settings that check_other_steps() refuses.
Settings with_names_of_today(Settings settings, const JobDraft& given);

}  // namespace meshwright::interop
