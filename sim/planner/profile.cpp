#include "sim/planner/profile.h"

#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "models/lower/lower.h"
#include "models/passes/pass.h"

namespace meshwright {

namespace {

struct SmallModel {
  Graph graph;
  Program program;
};

// The model with `layers` blocks, on one stage and as many replicas as share its experts.
SmallModel lower_small(Model model, Plan plan, int layers) {
  model.layers = layers;
  Parallelism& p = plan.parallelism;
  p.pipeline = p.shard = p.virtual_stages = 1;
  p.data = p.expert;
  p.schedule = ScheduleKind::one_f_one_b;
  p.active_microbatches = 0;
  p.zero_stage = 0;
  plan.training.global_batch = std::int64_t{plan.training.micro_batch} * p.data;
  SmallModel small;
  small.graph = run_passes(build_graph(model, plan.training), plan);
  plan.stage_of_unit.assign(small.graph.units.size(), 0);
  std::vector<Program> stages = lower(small.graph, plan);
  small.program = std::move(stages.front());
  return small;
}

CollectiveKind kind_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::all_gather:
      return CollectiveKind::all_gather;
    case InstructionKind::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case InstructionKind::all_to_all:
      return CollectiveKind::all_to_all;
    case InstructionKind::broadcast:
      return CollectiveKind::broadcast;
    default:
      return CollectiveKind::all_reduce;
  }
}

// Bytes of the whole buffer, as collective_time counts them.
std::int64_t whole_bytes(const Instruction& instruction) {
  std::int64_t bytes = 0;
  for (const Operand& operand : instruction.inputs) bytes = std::max(bytes, operand.type.bytes());
  for (const Operand& operand : instruction.outputs) bytes = std::max(bytes, operand.type.bytes());
  return bytes;
}

bool is_collective(InstructionKind kind) {
  return kind == InstructionKind::all_reduce || kind == InstructionKind::all_gather ||
         kind == InstructionKind::reduce_scatter;
}

UnitProfile::Pass& pass_of(UnitProfile& unit, Phase phase) {
  if (phase == Phase::forward) return unit.forward;
  return phase == Phase::recompute ? unit.recompute : unit.backward;
}

// A parameter belongs to the first unit that uses it.
void count_parameters(const Graph& graph, std::vector<UnitProfile>& units) {
  std::vector<bool> counted(graph.parameters.size(), false);
  for (const Node& node : graph.nodes)
    for (const int id : node.inputs) {
      if (graph.tensor(id).role != Role::parameter) continue;
      const auto index = static_cast<std::size_t>(graph.tensor(id).parameter);
      if (counted[index]) continue;
      counted[index] = true;
      units[static_cast<std::size_t>(graph.unit_of(node))].parameters +=
          graph.parameters[index].shape.elements();
    }
}

std::vector<UnitProfile> measure_units(const SmallModel& small, const CostModel& cost) {
  std::vector<UnitProfile> units(small.graph.units.size());
  for (std::size_t u = 0; u < units.size(); ++u) units[u].is_block = small.graph.units[u].is_block;
  for (const Body& body : small.program.bodies) {
    if (body.kind != Body::Kind::forward && body.kind != Body::Kind::backward) continue;
    for (const Instruction& instruction : body.instructions) {
      if (instruction.when != When::always || instruction.module < 0) continue;
      const Module& module = small.graph.modules[static_cast<std::size_t>(instruction.module)];
      UnitProfile& unit = units[static_cast<std::size_t>(module.unit)];
      UnitProfile::Pass& pass = pass_of(unit, instruction.phase);
      if (instruction.kind == InstructionKind::compute) {
        const double seconds = cost.time(instruction, small.program).value;
        pass.compute_s += seconds;
        if (instruction.op == Op::linear_grad_weight ||
            instruction.op == Op::expert_linear_grad_weight)
          unit.weight_gradient_s += seconds;
      } else if (instruction.stream == Stream::tensor_comm && is_collective(instruction.kind))
        ++pass.collectives[{kind_of(instruction.kind), whole_bytes(instruction)}];
    }
  }
  count_parameters(small.graph, units);
  return units;
}

// As many blocks as the model has, in place of each one. Parameters that blocks share are the first
// one's: `two` has two blocks for each one of `one`.
std::vector<UnitProfile> repeat_blocks(const std::vector<UnitProfile>& one,
                                       const std::vector<UnitProfile>& two, int blocks) {
  std::vector<UnitProfile> units;
  std::size_t in_two = 0;
  for (const UnitProfile& unit : one) {
    units.push_back(unit);
    ++in_two;
    if (!unit.is_block) continue;
    UnitProfile next = unit;
    next.parameters = two[in_two++].parameters;
    units.insert(units.end(), static_cast<std::size_t>(blocks - 1), next);
  }
  return units;
}

}  // namespace

std::int64_t ModelProfile::parameters() const {
  std::int64_t sum = 0;
  for (const UnitProfile& unit : units) sum += unit.parameters;
  return sum;
}

Profiles::Profiles(const Model& model, const Plan& base, const Cluster& cluster)
    : model_(model), base_(base), cluster_(cluster) {}

const ModelProfile& Profiles::of(const Candidate& candidate) {
  const Key key{candidate.tensor,    candidate.micro_batch,
                candidate.recompute, candidate.sequence_parallel,
                candidate.expert,    candidate.compiler};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, measure(candidate)).first->second;
}

ModelProfile Profiles::measure(const Candidate& candidate) const {
  Plan plan = to_plan(candidate, base_);
  // Where only a share of the blocks is recomputed: the cost of one that is not.
  if (plan.training.recompute_fraction < 1) plan.training.recompute = Recompute::none;
  plan.training.recompute_fraction = 1;
  plan.training.recompute_budget.reset();
  const CostModel cost(cluster_, plan.training);
  const SmallModel one = lower_small(model_, plan, 1);
  const SmallModel two = lower_small(model_, plan, 2);
  ModelProfile profile;
  profile.units = repeat_blocks(measure_units(one, cost), measure_units(two, cost), model_.layers);
  const std::int64_t kept_one = one.program.memory.slots.front().stride;
  const std::int64_t kept_two = two.program.memory.slots.front().stride;
  profile.block_kept_bytes = std::max<std::int64_t>(0, kept_two - kept_one);
  profile.other_kept_bytes = std::max<std::int64_t>(0, 2 * kept_one - kept_two);
  profile.task_bytes = one.program.memory.task_bytes;
  for (const Buffer& buffer : one.program.memory.buffers)
    if (buffer.region == Region::task)
      profile.largest_task_bytes = std::max(profile.largest_task_bytes, buffer.bytes);
  if (base_.training.recompute_fraction < 1) {
    // Recomputed blocks keep less; how much less is left to the exact plan.
    profile.block_kept_bytes =
        candidate.recompute == Recompute::none
            ? profile.block_kept_bytes
            : static_cast<std::int64_t>(static_cast<double>(profile.block_kept_bytes) *
                                        (1 - base_.training.recompute_fraction));
    profile.task_bytes = profile.largest_task_bytes = 0;
  }
  // Under a budget at least what is kept of it; how much that is is left to the exact plan.
  if (base_.training.recompute_budget)
    profile.block_kept_bytes = profile.other_kept_bytes = profile.task_bytes =
        profile.largest_task_bytes = 0;
  return profile;
}

}  // namespace meshwright
