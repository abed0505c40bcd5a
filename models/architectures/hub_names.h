// Finds the model of the zoo that a name on the Hugging Face Hub means.
#pragma once

#include <string>

#include "models/core/rooms.h"

namespace meshwright::architectures {

// Returns the zoo's name of a model that people name by its place on the Hub, by a folder or in
// another case: "llama-2-7b" for "meta-llama/Llama-2-7b-hf". Returns "" if the zoo has no such
// model.
std::string zoo_name_of(const std::string& hub_name);

// Returns what people should know about how such a name is read: that the model has the shape of
// another one, or that weights in the name's file are quantized. Returns "" if there is nothing to
// tell.
std::string note_on_name(const std::string& hub_name);

// Returns the message about a name that is neither a model of the zoo nor a file. It has near
// names, if there are any, and a way to go on.
std::string unknown_model(const std::string& ref);

}  // namespace meshwright::architectures
