// Chooses a usual shape for a model of which people know only the family and the number of
// parameters: {"family": "llama", "parameters": "3B"}, or "llama:3B".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/core/fields.h"

namespace meshwright::architectures {

// Returns the model that "llama:3B" means as JSON, or nothing if `ref` has no such form.
std::optional<nlohmann::json> model_of_words(const std::string& ref);

// Returns meshwright's own JSON of a model, with the sizes of a usual shape in place of
// `parameters`. `model` has `family` and `parameters`, and perhaps vocab and positions, which are
// kept. Throws InputError for other sizes beside them, for families without a usual shape, and if
// `parameters` is no number of parameters.
nlohmann::json with_usual_shape(const Fields& model);

// Returns the sizes for people: "hidden 3072, 24 layers, 24 heads (8 of keys), ffn 10752,
// vocabulary 128256".
std::string shape_text(const nlohmann::json& model);

}  // namespace meshwright::architectures
