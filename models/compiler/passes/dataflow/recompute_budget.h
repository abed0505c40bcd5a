// Chooses recomputed tensors one by one under a budget of memory. The choice fits and costs at most
// (1 + chain_tolerance) times the cheapest one that fits (chain_budget.h).
//
// The memory that counts is that of one micro-batch on one virtual stage: the bytes of its slot
// (models/compiler/lower/memory.cpp: tensors saved from forward to backward, each aligned), and the
// most recomputed bytes that are live at one time in a backward body. Tensors that cross from unit
// to unit are always saved. To recompute a block's input costs more per byte than to recompute
// anything inside a block, because the block before would repeat its longest matmul for it. Within
// a unit any set of tensors may be recomputed (kept_sets.h). Repetitions are exact: dropout and
// routing depend on keys and inputs only.
//
// Costs are in FLOPs: a kernel takes as long as its FLOPs or, if that is longer, as its traffic
// (roofline with DeviceFacts::flops_per_byte). The machine is described by this one number instead
// of a list of node times, because the passes themselves make the nodes, so nobody can time them
// before.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/core/error.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Bandwidth of device memory relative to that of a link between GPUs: an A100 has 2.0 TB/s against
// 0.3 TB/s of its NVLink, an H100 3.35 TB/s against 0.45.
constexpr double memory_bytes_per_link_byte = 7;

// Is thrown if no choice fits into the budget.
class BudgetTooSmall : public InputError {
 public:
  using InputError::InputError;
};

double recompute_cost(const Graph& graph, const Node& node, double flops_per_byte);

struct BudgetedStage {                 // one virtual stage, for one micro-batch
  std::int64_t unlimited = 0;          // bytes without recomputation
  std::int64_t budget = 0;             // bytes
  std::int64_t least = 0;              // the smallest budget that would do
  std::int64_t kept = 0, working = 0;  // bytes of the choice (KeptSet)
  double cost = 0;                     // of the repeated operations, in FLOPs
};

struct BudgetedTensors {
  std::vector<char> chosen;  // per tensor: whether it is recomputed
  std::vector<BudgetedStage> stages;
};

// Chooses recomputed tensors of a differentiated graph that repeats nothing yet. If the plan is not
// partitioned, all units count as one stage. A budget in bytes is then multiplied by the number of
// virtual stages, and if there are several, a budget that is too small counts as the least one that
// is enough. In all other cases throws BudgetTooSmall, with "/training/recompute_budget", if a
// stage's budget is too small.
BudgetedTensors choose_within_budget(const Graph& graph, const Plan& plan,
                                     const DeviceFacts& device = {});

Graph recompute_within_budget(const Graph& graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright::compiler
