// Declares the functions that the source files of the target torchtitan share. Names and defaults
// are those of torchtitan 0.2.2, torchtitan/config/job_config.py, and for the recipe those of
// 0.3.0.
#pragma once

#include <string>

#include "models/compiler/frameworks/pytorch.h"
#include "models/compiler/frameworks/torchtitan.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

const Rules& torchtitan_rules();
Rule torchtitan_stages_rule();  // comes after the rule of the degrees

Rule torchtitan_model_rule();

// Returns the text of meshwright_recipe.py: the settings for torchtitan 0.3.
std::string torchtitan_recipe(const JobValues& job, const Settings& settings);
// Returns a sentence for each difference between the plan and a run of its recipe by torchtitan
// 0.3.
std::vector<std::string> torchtitan_recipe_differences(const Plan& plan);

// Renames settings of older versions and of NeMo AutoModel to those of the rules.
Settings with_names_of_titan(Settings settings, const JobDraft& given);
// Renames the settings of a recipe of NeMo AutoModel (automodel.cpp). Does nothing for other
// settings. Throws InputError for recipes that do not train on the next token of texts, or that
// train in a way that is not built.
void read_automodel(Settings& settings);

}  // namespace meshwright::interop
