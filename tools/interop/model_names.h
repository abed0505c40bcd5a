// Finds the model of the zoo that a name on the Hugging Face Hub means.
#pragma once

#include <string>

#include "tools/interop/job_draft.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Returns the zoo's name of a model that other files name by its place on the Hub or by a folder
// ("meta-llama/Llama-2-7b-hf" is "llama-2-7b"). Empty if the zoo has no such model.
std::string zoo_name_of(const std::string& hub_name);

// Sets the model to the one of the zoo that the setting names, and says so, unless the job has a
// model already.
void take_named_model(Settings& from, const std::string& setting, JobDraft& to);

}  // namespace meshwright::interop
