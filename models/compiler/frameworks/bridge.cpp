// This file lists which plans Megatron-Bridge can express: those of Megatron-LM, and in addition
// layers that are offloaded to the host. A learned table of positions must be as long as the
// sequences.
#include <algorithm>

#include "models/compiler/frameworks/megatron.h"

namespace meshwright::compiler {

namespace {

bool offloads(const Plan& plan) { return plan.parallelism.offload != Offload::none; }

bool can_offload(const Plan& plan, const Model& model) {
  const Parallelism& p = plan.parallelism;
  return p.offload == Offload::layers && plan.virtual_stage_count() == 1 &&
         plan.training.recompute == Recompute::none && p.offload_horizon >= 2 &&
         p.offload_horizon < model.layers;
}

void keep_on_device(Plan& plan, const Model&) {
  plan.parallelism.offload = Offload::none;
  plan.parallelism.offload_horizon = 0;
}

constexpr Limit own_rows[] = {
    {"training.sequence_length", "reads sequences that are as long as a learned table of positions",
     [](const Plan& p, const Model& m) {
       return !m.learned_positions || p.training.sequence_length == m.positions;
     },
     nullptr},
    {"parallelism.offload",
     "moves what whole layers keep to the host (cpu_offloading_num_layers), without stages and "
     "without recomputation",
     [](const Plan& p, const Model& m) { return !offloads(p) || can_offload(p, m); },
     keep_on_device},
    {"parallelism.offload_horizon", "keeps at least two layers on the device, with offload alone",
     [](const Plan& p, const Model&) { return offloads(p) || p.parallelism.offload_horizon == 0; },
     keep_on_device},
};

std::span<const Limit> bridge_limits() {
  static const std::vector<Limit> all = [] {
    std::vector<Limit> rows;
    for (const Limit& row : megatron_limits())
      if (row.key != "parallelism.offload") rows.push_back(row);
    rows.insert(rows.end(), std::begin(own_rows), std::end(own_rows));
    return rows;
  }();
  return all;
}

void settle_as_bridge(Plan& plan, const Model& model) {
  settle_as_megatron(plan, model);
  Parallelism& p = plan.parallelism;
  if (p.offload == Offload::layers && p.offload_horizon == 0) p.offload_horizon = 2;
  if (p.offload == Offload::none) p.offload_horizon = 0;
}

}  // namespace

const FrameworkLimits megatron_bridge_limits = {bridge_limits(), settle_as_bridge};

}  // namespace meshwright::compiler
