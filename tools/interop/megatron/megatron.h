// Declares what Megatron-LM, Megatron-Bridge and NeMo have in common.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/frameworks/framework.h"
#include "models/compiler/frameworks/megatron.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

Rule megatron_model_rule();
Rule megatron_stages_rule();  // after the rule of the model
// Returns the rules of `parallelism`, after those of the model and the batch.
Rules megatron_parallelism_rules();

// Returns settings as words of a command line: {"--tensor-model-parallel-size", "8", "--bf16",
// ...}.
std::vector<std::string> words_of_arguments(const Settings& settings);

// Returns the rules, which have the names of Megatron-LM's arguments without their dashes.
const Rules& megatron_rules();

// Renames arguments of older versions and of forks to those of today, before the rules read them.
Settings with_names_of_today(Settings settings, const JobDraft& given);

}  // namespace meshwright::interop
