// The largest batch per GPU that a published row found by trial: by the framework alone, and with
// the training compiler.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/machine.h"
#include "sim/validate/evidence.h"

namespace meshwright {

struct BatchPrediction {
  int native = 0, compiled = 0;
  // By our own compiler at level full; none where source and target differ in length.
  std::optional<int> full;
};

// The zoo's name of a published one, without its owner; what is fine-tuned or distilled from a
// model is as large as that model. InputError for a model that the zoo has not.
std::string zoo_model_of(const std::string& published);

// From the machine's memory and what libraries take of it alone. Both columns train with automatic
// mixed precision (sim/framework/autocast_memory.h), eager or compiled as a whole. All: AdamW,
// dropout 0.1, a score matrix in memory, logits of every position, gradients reduced over the
// host's GPUs; encoders of texts that are summarized read up to 1024 tokens. InputError: the model,
// or the machine's framework memory, is not known.
BatchPrediction predict_largest_batch(const LargestBatchRow& row, const Machine& machine);

}  // namespace meshwright
