// Predicts the largest batch per GPU that was found by trial and published: with the framework
// only, and with the training compiler.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/machine.h"
#include "sim/validate/evidence.h"

namespace meshwright::sim {

struct BatchPrediction {
  int native = 0, compiled = 0;
  // The prediction for this project's compiler at level full, or none if sources and targets have
  // different lengths.
  std::optional<int> full;
};

// Returns the name of a published model in this project's zoo, without the owner of the model. A
// model that was fine-tuned or distilled from another has the name of that model. Throws InputError
// for a model that the zoo does not have.
std::string zoo_model_of(const std::string& published);

// Predicts a row from the machine's memory and the part of it that libraries take. Both columns
// train with automatic mixed precision (sim/framework/autocast_memory.h), eagerly or compiled as
// one program. All use AdamW, dropout 0.1 (0 for ALBERT), a score matrix in memory, logits of every
// position, and gradients reduced over the host's GPUs. If texts are summarized, encoders read 1024
// tokens. Throws InputError if the model, or the machine's framework memory, is not known.
BatchPrediction predict_largest_batch(const LargestBatchRow& row, const Machine& machine);

}  // namespace meshwright::sim
