// Reads the YAML of LLaMA-Factory 0.9.4 that trains by Megatron-Core (examples/megatron,
// examples/megatron_bridge): the Trainer's arguments beside the degrees of Megatron-LM.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright::interop {

bool is_llama_factory_on_megatron(const Settings& settings);

// Returns the settings as arguments of Megatron-LM. with_arguments_of_yaml() calls it.
Settings llama_factory_arguments(const Settings& settings);

// Return the rules of what Megatron-LM's own arguments do not have: a model by its name, the batch
// as accumulation, and adapters.
Rule named_model_rule();   // before the rule of the sizes
Rule accumulation_rule();  // after the rules of the degrees
Rule adapters_rule();

}  // namespace meshwright::interop
