#include "models/architectures/huggingface_head.h"

#include <algorithm>
#include <vector>

#include "models/architectures/architecture.h"
#include "models/core/error.h"

namespace meshwright::architectures {

int classes_of(Fields& fields) {
  const bool named = is_given(fields, "id2label");
  if (is_given(fields, "num_labels")) return fields.required<int>("num_labels");
  return named ? static_cast<int>(fields.object("id2label").keys().size()) : 2;
}

namespace {

// Reads the keys that transformers' ForSequenceClassification reads. With a single label,
// transformers makes a regression, which is not built.
void read_classification(Fields& fields, Model& model) {
  model.head = Head::label;
  check_classifies(fields, "architectures", model);
  const std::string_view type = "problem_type", single = "single_label_classification";
  if (is_given(fields, type) && fields.required<std::string>(type) != single)
    fields.fail(type, "only classes are learned; set it to '" + std::string(single) + "'");
  model.classes = classes_of(fields);
  check_classes(fields, is_given(fields, "num_labels") ? "num_labels" : "id2label", model.classes);
  const std::string_view pad = "pad_token_id";
  if (!is_given(fields, pad) || !model.is_causal()) return;
  model.pad_token = std::max(-1, fields.required<int>(pad));
  if (model.pad_token >= model.vocabulary)
    fields.fail(pad, std::to_string(model.pad_token) + " is not in the vocabulary; use 0 to " +
                         std::to_string(model.vocabulary - 1));
}

}  // namespace

void read_head(Fields& fields, Model& model) {
  if (!is_given(fields, "architectures")) return;
  for (const std::string& name : fields.required<std::vector<std::string>>("architectures"))
    if (name.ends_with("ForSequenceClassification")) {
      read_classification(fields, model);
    } else if (name.ends_with("ForQuestionAnswering")) {
      if (model.has_decoder())
        fields.fail("architectures", name + ": only the language model's head is built for it");
      model.head = Head::qa;
    } else if (name.ends_with("ForCausalLM") && model.has_decoder()) {
      fields.fail("architectures",
                  name + ": a decoder of two stacks without its encoder is not built");
    }
}

std::string class_of(const Model& model) {
  const ClassNames& names = info(model.architecture).config.classes;
  const bool lacks = model.classifies_text() ? !names.has_classifier
                                             : model.head == Head::qa && names.reader.empty();
  if (lacks)
    throw NotSupportedYet(std::string("transformers has no ") +
                          (model.classifies_text() ? "classification" : "question-answering") +
                          " head for " + std::string(name_of(model.architecture)));
  if (!model.classifies_text())
    return std::string(model.head == Head::qa ? names.reader : names.generator);
  const std::string_view generator = names.generator;
  const std::string_view body =
      generator.substr(0, std::min(generator.find("LMHeadModel"), generator.find("For")));
  return std::string(names.body.empty() ? body : names.body) + "ForSequenceClassification";
}

}  // namespace meshwright::architectures
