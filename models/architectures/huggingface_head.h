// Finds out which head the model of a config.json has, and which class of transformers has that
// head.
#pragma once

#include <string>

#include "models/architectures/model.h"

namespace meshwright::architectures {

// Returns the number of classes: `num_labels`, or the number of entries of `id2label`. Returns 2,
// the default of transformers, if the file gives neither.
int classes_of(Fields& fields);

// Sets the model's head from the class names in `architectures`. The head stays as it is if the
// file has no `architectures`, or if no class in it names another head. The sizes must have been
// read before.
void read_head(Fields& fields, Model& model);

// Returns the name of the class of transformers with the model's head. Throws NotSupportedYet if
// transformers has no such class.
std::string class_of(const Model& model);

}  // namespace meshwright::architectures
