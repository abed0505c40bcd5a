// The number of ranks that split each expert of a layer if a job does not say it.
#pragma once

#include "models/architectures/model_sizes.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

// Returns the default of `expert_tensor` for a plan whose other degrees are known. If dropless
// experts are shared out, each rank gets whole ones, as in torchtitan's and Megatron's recipes. All
// other experts are split as MLPs are: those with slots because their capacity is that of whole
// sequences. 0 means that the model has no experts.
inline int default_expert_tensor(const Parallelism& parallelism, const ModelSizes& model) {
  if (model.experts == 0) return 0;
  return model.dropless && parallelism.expert > 1 ? 1 : parallelism.tensor;
}

}  // namespace meshwright::compiler
