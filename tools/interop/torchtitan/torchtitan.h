// Declares what the source files of the target torchtitan share. Names and defaults are those of
// torchtitan 0.2.2, torchtitan/config/job_config.py, and for the recipe those of 0.3.0.
#pragma once

#include <string>

#include "models/compiler/frameworks/pytorch.h"
#include "models/compiler/frameworks/torchtitan.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

const Rules& torchtitan_rules();
Rule torchtitan_stages_rule();  // after the rule of the degrees

Rule torchtitan_model_rule();

// Returns the text of meshwright_recipe.py: the settings for torchtitan 0.3.
std::string torchtitan_recipe(const JobValues& job, const Settings& settings);
// Returns a sentence for each difference between what torchtitan 0.3 does and the plan.
std::vector<std::string> torchtitan_recipe_differences(const Plan& plan);

// Renames settings of older versions to those of the rules.
Settings with_names_of_titan(Settings settings, const JobDraft& given);
// Renames the settings of a recipe of NeMo AutoModel, if these are such (automodel.cpp). Throws
// InputError for recipes that train otherwise than on the next token of texts.
void read_automodel(Settings& settings);

}  // namespace meshwright::interop
