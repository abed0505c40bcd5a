// The table of contents: every pass that a graph goes through, in order.
#include "models/passes/backward.h"
#include "models/passes/pad_vocabulary.h"
#include "models/passes/pass.h"
#include "models/passes/recompute.h"
#include "models/passes/ring_attention.h"
#include "models/passes/split_context.h"
#include "models/passes/split_experts.h"
#include "models/passes/split_tensors.h"

namespace meshwright {

namespace {

constexpr Pass training_list[] = {
    {"pad_vocabulary", "before the split: the padded vocabulary divides by the tensor degree",
     pad_vocabulary},
    {"split_context", "before backward: the loss and its gradient are of own tokens",
     split_context},
    {"split_tensors", "before backward: a communication's gradient is its conjugate",
     split_tensors},
    {"split_experts", "before backward: an exchange's gradient is an exchange", split_experts},
    {"backward", "on the split graph: gradients are local", backward},
    {"recompute", "after backward: gradients tell what is needed again", recompute},
    {"ring_attention", "last: to all other passes attention is one operation", ring_attention},
};

}  // namespace

std::span<const Pass> training_passes() { return training_list; }

Graph run_passes(Graph graph, const Plan& plan, std::span<const Pass> passes,
                 const PassObserver& observe) {
  for (const Pass& pass : passes) {
    graph = pass.run(std::move(graph), plan);
    verify(graph, pass.name);
    if (observe) observe(pass.name, graph);
  }
  return graph;
}

}  // namespace meshwright
