// Lists the kernels of a space, and the ways to save memory.
#include "sim/planner/open_keys.h"

namespace meshwright::sim {

namespace {

// Shares of the blocks that are recomputed, if the job leaves the share to the planner.
const std::vector<double> fractions = {0.25, 0.5, 0.75, 1};

std::vector<int> tensor_chunks_of(const OpenKeys& open, const Candidate& shape) {
  const Parallelism& p = open.base.parallelism;
  const bool cuts = shape.tensor > 1 && p.overlap_tensor;
  return open.choices("parallelism.tensor_chunks", p.tensor_chunks,
                      cuts ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1});
}

// Returns whether the ranks of a tensor group can share the rows between modules. A captured model
// says so for each degree.
bool may_share_rows(const OpenKeys& open, int tensor) {
  return tensor > 1 &&
         (!open.sizes.captured || std::ranges::count(open.sizes.sequence_degrees, tensor) > 0);
}

// Returns the attention kernel that settle() will choose for the plan.
AttentionKernel attention_of(const OpenKeys& open, CompilerLevel level, int context) {
  const bool eager = level == CompilerLevel::none && context == 1 && !open.sizes.sinks;
  return eager && open.job.is_auto("training.attention") ? AttentionKernel::unfused
                                                         : open.base.training.attention;
}

}  // namespace

std::vector<Kernels> kernels_of(const OpenKeys& open, const Candidate& shape) {
  std::vector<Kernels> found;
  std::vector<CompilerLevel> levels = {CompilerLevel::none, CompilerLevel::fused};
  if (!open.sizes.captured) levels.push_back(CompilerLevel::full);
  for (const CompilerLevel level :
       open.choices("training.compiler", open.base.training.compiler, levels))
    for (const bool rows :
         open.choices("parallelism.sequence_parallel", open.base.parallelism.sequence_parallel,
                      may_share_rows(open, shape.tensor) ? std::vector<bool>{false, true}
                                                         : std::vector<bool>{false}))
      for (const int chunks : tensor_chunks_of(open, shape))
        found.push_back({rows, chunks, level, attention_of(open, level, shape.context)});
  return found;
}

std::vector<Saving> savings_of(const OpenKeys& open, const Kernels& kernels) {
  const Training& t = open.base.training;
  std::vector<Recompute> kinds = {Recompute::none};
  if (kernels.attention == AttentionKernel::unfused && !open.sizes.captured)
    kinds.push_back(Recompute::selective);
  kinds.push_back(Recompute::full);
  std::vector<Saving> found;
  for (const Recompute kind : open.choices("training.recompute", t.recompute, kinds))
    for (const double fraction :
         open.choices("training.recompute_fraction", t.recompute_fraction,
                      kind == Recompute::none ? std::vector<double>{1} : fractions)) {
      std::vector<Offload> offloads = {Offload::none};
      if (kind != Recompute::none && !t.recompute_budget) offloads.push_back(Offload::activations);
      if (kind == Recompute::full && !open.sizes.has_decoder) offloads.push_back(Offload::layers);
      for (const Offload offload :
           open.choices("parallelism.offload", open.base.parallelism.offload, offloads))
        found.push_back({kind, fraction, offload});
    }
  return found;
}

}  // namespace meshwright::sim
