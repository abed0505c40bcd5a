// Finds the model of the zoo that a name on the Hugging Face Hub means.
#pragma once

#include <string>

#include "models/core/rooms.h"

namespace meshwright::architectures {

// Returns the zoo's name of a model that people name by its place on the Hub, by a folder or in
// another case ("meta-llama/Llama-2-7b-hf" is "llama-2-7b"). Empty if the zoo has no such model.
std::string zoo_name_of(const std::string& hub_name);

// Returns what people should know of how such a name is read: that the model has the shape of
// another one, or that weights in the name's file are quantized. Empty if nothing is to be said.
std::string note_on_name(const std::string& hub_name);

// Returns the message about a name that is neither a model of the zoo nor a file, with names that
// are near and a way to go on.
std::string unknown_model(const std::string& ref);

}  // namespace meshwright::architectures
