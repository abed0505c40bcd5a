// The largest batch per GPU that a published row found by trial: by the framework alone, and with
// the training compiler.
#pragma once

#include "hwprofiles/machine.h"
#include "sim/validate/evidence.h"

namespace meshwright {

struct BatchPair {
  int native = 0, compiled = 0;
};

// The zoo's name of a published one, without its owner; what is fine-tuned or distilled from a
// model is as large as that model. InputError for a model that the zoo has not.
std::string zoo_model_of(const std::string& published);

// From the machine's memory and what libraries take of it alone. Native: eager PyTorch with
// automatic mixed precision (sim/compile/eager_memory.h). Compiled: our own compiler at level full,
// in fp16. Both: AdamW, dropout 0.1, a score matrix in memory, logits of every position, the
// gradients of all GPUs of the host reduced. InputError: the model, or the machine's framework
// memory, is not known.
BatchPair predict_largest_batch(const LargestBatchRow& row, const Machine& machine);

}  // namespace meshwright
