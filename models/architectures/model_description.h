// Describes a model as names and values. A checkpoint stores the description, so that its reader
// can tell whether it is of the same model (models/job/identity.h).
#pragma once

#include <map>
#include <string>

#include "models/architectures/model.h"

namespace meshwright::architectures {

// Returns every field of `model` except its name, as JSON, by the field's name ("heads": "4"). The
// activation has a name for each of several values instead. Models with different descriptions may
// compute the same, because fields that have no effect are described as well.
std::map<std::string, std::string> description_of(const Model& model);

}  // namespace meshwright::architectures
