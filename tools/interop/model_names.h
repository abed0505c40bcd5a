// Takes the model that a setting names by its place on the Hugging Face Hub.
#pragma once

#include <string>

#include "tools/interop/job_draft.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Sets the model to the one of the zoo that the setting names, and says so, unless the job has a
// model already.
void take_named_model(Settings& from, const std::string& setting, JobDraft& to);

}  // namespace meshwright::interop
