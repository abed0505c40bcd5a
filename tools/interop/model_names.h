// Translates a model's name on the Hugging Face Hub to a model of the zoo.
#pragma once

#include <string>

#include "tools/interop/job_draft.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Returns the config.json of a model of the zoo.
json config_of_zoo(const std::string& name);

// Returns how a job says a model of the zoo as other frameworks train it. Their experts take all
// tokens that chose them, while the zoo's have a capacity: such a model is returned as a
// config.json without one, whose ranks have room for the usual number of tokens. Any other is
// returned by its name.
json model_of_zoo(const std::string& name);

// Returns the model of the zoo that has the shape of the language model of a model of pictures or
// speech and texts, by its name on the Hub, or "" if none is known.
std::string language_model_of(const std::string& name);

// Returns a sentence that says why a model of this name, or made by this class, is not built, or ""
// if nothing is known of it.
std::string why_unbuilt(const std::string& name);

// Returns the number of experts in a layer of the draft's model, or 0 if it has none or no model.
std::int64_t experts_of(const JobDraft& draft);

// Sets the key `model` to the model of the zoo that the setting names, and adds a remark. If the
// zoo has none for this name, asks the user for the model. Of a model of pictures and texts, takes
// the language model, and says so. Does nothing if the setting is absent or the job has a model
// already.
void take_named_model(Settings& from, const std::string& setting, JobDraft& to);

}  // namespace meshwright::interop
