// Recomputation chosen per tensor under a budget of memory: of all ways to make again what does not
// fit, one that costs at most chain_tolerance (chain_budget.h) more than the cheapest.
//
// What counts, for one micro-batch on one virtual stage: the bytes of its slot (memory.cpp: what is
// kept from forward to backward, each tensor aligned), and the most that is made again and live at
// one time in a backward body, which lowering places in the task region. Tensors that cross from
// unit to unit are always kept: a block's input takes more work per byte than anything inside a
// block, since the block before would repeat its longest product for it. Within a unit any set of
// tensors may be made again (kept_sets.h). Repetitions are exact: dropout and routing depend on
// keys and inputs alone.
//
// Costs are in FLOPs: a kernel takes as long as its FLOPs or, if that is longer, as its traffic
// (roofline with DeviceFacts::flops_per_byte). One number of the machine, not a list of node times,
// because the nodes are made by the passes themselves, so that nobody can time them before.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/core/error.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Bandwidth of memory relative to that of a link: A100 2.0 TB/s against 0.3 TB/s of NVLink, H100
// 3.35 against 0.45.
constexpr double memory_bytes_per_link_byte = 7;

// Says that no choice fits into the budget.
class BudgetTooSmall : public InputError {
 public:
  using InputError::InputError;
};

double recompute_cost(const Graph& graph, const Node& node, double flops_per_byte);

struct BudgetedStage {                 // one virtual stage, one micro-batch
  std::int64_t unlimited = 0;          // bytes without recomputation
  std::int64_t budget = 0;             // bytes
  std::int64_t least = 0;              // the smallest budget that would do
  std::int64_t kept = 0, working = 0;  // as chosen
  double cost = 0;                     // FLOPs
};

struct BudgetedTensors {
  std::vector<char> chosen;  // per tensor: made again
  std::vector<BudgetedStage> stages;
};

// Chooses for a differentiated graph that repeats nothing yet. While the plan is not partitioned,
// all units count as one stage. If the plan then has several stages, their budgets are added, and a
// budget that is too small counts as the least that would do. Otherwise throws BudgetTooSmall, with
// "/training/recompute_budget".
BudgetedTensors choose_within_budget(const Graph& graph, const Plan& plan,
                                     const DeviceFacts& device = {});

Graph recompute_within_budget(const Graph& graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright
