// Translates a model's name on the Hugging Face Hub to a model of the zoo.
#pragma once

#include <string>

#include "tools/interop/job_draft.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Sets the key `model` to the model of the zoo that the setting names, and adds a remark. If the
// zoo has none for this name, asks the user for the model. Does nothing if the setting is absent or
// the job has a model already.
void take_named_model(Settings& from, const std::string& setting, JobDraft& to);

}  // namespace meshwright::interop
