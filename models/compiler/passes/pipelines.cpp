// The list of all passes, in the order in which they run.
#include <algorithm>
#include <chrono>
#include <string>

#include "models/compiler/passes/back_end/fuse_rows.h"
#include "models/compiler/passes/dataflow/order_operations.h"
#include "models/compiler/passes/dataflow/recompute.h"
#include "models/compiler/passes/dataflow/rematerialize_rows.h"
#include "models/compiler/passes/dataflow/reuse_in_place.h"
#include "models/compiler/passes/graph/add_adapters.h"
#include "models/compiler/passes/graph/backward.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/compiler/passes/graph/common_subexpressions.h"
#include "models/compiler/passes/graph/eager_operations.h"
#include "models/compiler/passes/graph/fuse_loss.h"
#include "models/compiler/passes/graph/merge_products.h"
#include "models/compiler/passes/graph/quantize.h"
#include "models/compiler/passes/graph/simplify.h"
#include "models/compiler/passes/graph/widen_weights.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/passes/split/exchange_heads.h"
#include "models/compiler/passes/split/overlap_tensor.h"
#include "models/compiler/passes/split/pad_vocabulary.h"
#include "models/compiler/passes/split/ring_attention.h"
#include "models/compiler/passes/split/split_context.h"
#include "models/compiler/passes/split/split_experts.h"
#include "models/compiler/passes/split/split_tensors.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

constexpr Pass training_list[] = {
    {"pad_vocabulary", "before the split: the padded vocabulary divides by the tensor degree",
     pad_vocabulary},
    {"split_context", "before backward: the loss and its gradient are of own tokens",
     split_context},
    {"split_tensors", "before backward: a communication's gradient is its conjugate",
     split_tensors},
    {"exchange_heads",
     "after the tensor group has its heads; before backward: an exchange's gradient is an "
     "exchange, "
     "and what came of it is kept",
     exchange_heads},
    {"split_experts", "before backward: an exchange's gradient is an exchange", split_experts},
    {"add_adapters",
     "after the splits: an adapter is cut as its layer is, and adds no communication",
     add_adapters},
    {"eager_operations",
     "after the splits, which cut modules; before backward: each operation has its gradient",
     eager_operations, at_none},
    {"eager_loss", "the same for the loss; at `full` too, where fuse_loss is left out", eager_loss,
     at_none | at_full, true},
    {"backward", "on the split graph: gradients are local", backward},
    {"simplify", "early: what is left out need not be looked at again", simplify, at_full, true},
    {"common_subexpressions", "before recomputation, which makes things twice on purpose",
     share_common_subexpressions, at_full, true},
    {"dead_code", "after what leaves results unused", remove_dead_code, at_full, true},
    {"fuse_loss", "before recomputation: it never looks at the head", fuse_loss, at_full, true},
    {"quantize",
     "after what shares results: a weight that was gathered again is rounded again; before "
     "recomputation, which is told what is kept in 8 or 4 bits",
     quantize},
    {"recompute", "after backward: gradients tell what is needed again", recompute},
    {"rematerialize_rows", "after recompute: only of what is still kept", rematerialize_rows,
     at_full, true},
    {"ring_attention", "to all passes before, attention is one operation", ring_attention},
    {"merge_products", "after recomputation: repeated products are merged too", merge_products,
     at_full, true},
    {"fuse_rows", "takes what is made again together with what needs it", fuse_rows, at_full, true},
    {"order_operations", "after fusion: of what is left to be ordered", order_operations, at_full,
     true},
    {"overlap_tensor", "after what fuses and orders by memory: time comes first", overlap_tensor},
    {"widen_weights", "after what fuses and orders: a widened weight is used at once and not kept",
     widen_weights},
    {"reuse_in_place", "last: what may be overwritten depends on the order", reuse_in_place,
     at_full, true},
};

std::vector<std::string> optional_names() {
  std::vector<std::string> names;
  for (const Pass& pass : training_list)
    if (pass.optional) names.emplace_back(pass.name);
  return names;
}

}  // namespace

std::span<const Pass> training_passes() { return training_list; }

std::vector<Pass> passes_of(const Training& training) {
  const unsigned level = 1U << static_cast<unsigned>(training.compiler);
  // torch.compile compiles blocks and the loss, but not the head together with the loss. torchtitan
  // computes these two together in parts of the rows (ChunkedCELoss, since April 2026).
  // A job that leaves out fuse_loss by itself has a loss of separate kernels.
  const auto is_named = [&](std::string_view name) {
    return std::ranges::find(training.passes_off, name) != training.passes_off.end();
  };
  const bool compiles_loss_alone =
      training.compiler == CompilerLevel::full && is_of_pytorch(training.framework) &&
      training.framework != Framework::torchtitan && !is_named("fuse_loss");
  const auto is_off = [&](std::string_view name) {
    if (compiles_loss_alone && (name == "fuse_loss" || name == "eager_loss")) return true;
    return is_named(name);
  };
  std::vector<Pass> chosen;
  for (const Pass& pass : training_list) {
    const bool is_fused = pass.name == "eager_loss" && level == at_full && !is_off("fuse_loss");
    if ((pass.levels & level) != 0 && !is_off(pass.name) && !is_fused) chosen.push_back(pass);
  }
  return chosen;
}

void check_passes_off(const Training& training) {
  const std::vector<std::string> names = optional_names();
  for (std::size_t i = 0; i < training.passes_off.size(); ++i) {
    const std::string& name = training.passes_off[i];
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string near = nearest(name, names);
    throw InputError(broken(
        "/training/passes_off/" + std::to_string(i), "'{}' is no pass that can be left out; {}",
        name, near.empty() ? "'list passes' names them" : "did you mean '" + near + "'?"));
  }
}

namespace {

// Throws ImmenseTensor if a tensor has more than 1e15 bytes. Sizes are computed in 63 bits, which
// no realistic tensor comes near.
void refuse_immense_tensors(const Graph& graph) {
  constexpr double most_bytes = 1e15;
  for (const Tensor& tensor : graph.tensors) {
    double bytes = static_cast<double>(bits_of(tensor.type.dtype)) / 8;
    for (int i = 0; i < tensor.type.shape.rank; ++i)
      bytes *= static_cast<double>(tensor.type.shape[i]);
    if (bytes > most_bytes)
      throw ImmenseTensor(
          broken("/training",
                 "a tensor of the step would take more than 1e15 bytes; look at sequence_length, "
                 "micro_batch and the sizes of the model"));
  }
}

}  // namespace

Graph Pass::run(Graph graph, const Plan& plan, const DeviceFacts& device) const {
  if (const auto* of_plan = std::get_if<PlanPass>(&function))
    return (*of_plan)(std::move(graph), plan);
  return std::get<DevicePass>(function)(std::move(graph), plan, device);
}

Graph run_passes(Graph graph, const Plan& plan, const DeviceFacts& device,
                 const PassObserver& observe) {
  refuse_immense_tensors(graph);
  using Clock = std::chrono::steady_clock;
  for (const Pass& pass : passes_of(plan.training)) {
    const Clock::time_point begin = Clock::now();
    graph = pass.run(std::move(graph), plan, device);
    refuse_immense_tensors(graph);
    verify(graph, pass.name);
    if (observe) observe(pass, graph, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return graph;
}

}  // namespace meshwright::compiler
