// Finds the model of the zoo that a name on the Hugging Face Hub means.
#pragma once

#include <string>

#include "models/core/rooms.h"

namespace meshwright::architectures {

// Returns the zoo's name of a model that people name by its place on the Hub, by a folder or in
// another case ("meta-llama/Llama-2-7b-hf" is "llama-2-7b"). Empty if the zoo has no such model.
std::string zoo_name_of(const std::string& hub_name);

}  // namespace meshwright::architectures
