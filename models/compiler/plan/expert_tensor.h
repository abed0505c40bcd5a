// The default of the number of ranks that split each expert of a layer.
#pragma once

#include "models/architectures/model_sizes.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

// Returns the default of `expert_tensor` for a plan whose other degrees are known. With expert
// parallelism, each rank gets whole dropless experts, as in torchtitan's and Megatron's recipes.
// Otherwise the tensor group splits experts as it splits MLPs. Experts with slots are always split,
// because their capacity is defined over whole sequences. Returns 0 if the model has no experts.
inline int default_expert_tensor(const Parallelism& parallelism, const ModelSizes& model) {
  if (model.experts == 0) return 0;
  return model.dropless && parallelism.expert > 1 ? 1 : parallelism.tensor;
}

}  // namespace meshwright::compiler
