// A model as names and values, for whoever has to tell two models apart: a checkpoint says with it
// which model it is of (models/job/identity.h).
#pragma once

#include <map>
#include <string>

#include "models/architectures/model.h"

namespace meshwright {

// Returns every field of `model` but its name, as JSON, by the field's name ("heads": "4"). Models
// with equal descriptions compute the same. Two of unequal descriptions may: a field that others
// leave without effect is described too.
std::map<std::string, std::string> description_of(const Model& model);

}  // namespace meshwright
