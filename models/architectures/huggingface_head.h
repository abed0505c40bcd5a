// Which head a config.json means, and which class of transformers has it.
#pragma once

#include <string>
#include <string_view>

#include "models/architectures/model.h"

namespace meshwright {

// Classes are counted, or named one by one; transformers has two where a file does neither.
int classes_of(Fields& fields);

// `architectures` names the class that the file was saved from. After the sizes.
void read_head(Fields& fields, Model& model);

// The class with the model's head, by those that have the language model's and that of question
// answering ("": there is none). NotSupportedYet where transformers has none.
std::string class_of(std::string_view generator, std::string_view reader, const Model& model);

}  // namespace meshwright
