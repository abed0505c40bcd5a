// The number of ranks that split each expert of a layer if a job does not say it.
#pragma once

#include "models/architectures/model_sizes.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

// Returns the default of `expert_tensor` for a plan whose other degrees are known. Recipes that
// share dropless experts out give each rank whole ones, as torchtitan and Megatron's recipes do.
// Experts with slots are split as MLPs are, because their capacity is that of whole sequences. 0
// means that the model has no experts.
inline int default_expert_tensor(const Parallelism& parallelism, const ModelSizes& model) {
  if (model.experts == 0) return 0;
  return model.dropless && parallelism.expert > 1 ? 1 : parallelism.tensor;
}

}  // namespace meshwright::compiler
