#include "sim/planner/profile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/architectures/build_of_rank.h"
#include "models/compiler/compile.h"
#include "models/compiler/lower/lower.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "models/core/round_up.h"
#include "sim/collectives/of_instruction.h"
#include "sim/planner/mixed_recompute.h"
#include "sim/predict/megatron_memory.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

namespace {

// The smallest number of blocks that gives a stage in the middle if each stage has one.
constexpr int blocks_of_stages = 3;

struct SmallModel {
  Graph graph;
  std::vector<Program> stages;
  const Program& program() const { return stages.front(); }
};

// Lowers the model with `layers` blocks on `stages` stages. If there are several stages, the first
// and the last have one block each, and the others are between. The number of replicas is the least
// that the expert degree allows.
SmallModel lower_small(Model model, Plan plan, int layers, int stages = 1) {
  model.layers = layers;
  std::erase_if(model.dense_blocks, [&](int block) { return block >= layers; });
  Parallelism& p = plan.parallelism;
  p.pipeline = stages;
  p.shard = p.virtual_stages = 1;
  p.data = p.degrees().experts_over_tensor ? p.expert / std::gcd(p.expert, p.tensor) : p.expert;
  const bool splits = schedule_info(p.schedule).splits_backwards;
  p.schedule = splits ? ScheduleKind::zero_bubble : ScheduleKind::one_f_one_b;
  p.active_microbatches = 0;
  p.zero_stage = 0;
  plan.training.global_batch = std::int64_t{plan.training.micro_batch} * p.data;
  SmallModel small;
  small.graph =
      run_passes(build_graph_of_rank(model, plan.training, p.tensor, p.sequence_parallel), plan);
  int block = -1;
  for (const Unit& unit : small.graph.units) {
    if (unit.is_block) ++block;
    plan.stage_of_unit.push_back(
        block == layers - 1 ? stages - 1 : std::clamp(block, 0, stages - 2 + (stages == 1)));
  }
  small.stages = lower(small.graph, plan);
  return small;
}

bool is_collective(InstructionKind kind) { return collective_kind(kind).has_value(); }

UnitProfile::Pass& pass_of(UnitProfile& unit, Phase phase) {
  if (phase == Phase::forward) return unit.forward;
  return phase == Phase::recompute ? unit.recompute : unit.backward;
}

Collective collective_of(const Instruction& instruction, const Machine& machine) {
  return {instruction.group, collective_kind(instruction.kind).value(),
          sent_bytes(instruction, machine), choices_of(instruction)};
}

bool compute_waits_for(Stream stream) {
  return stream == Stream::tensor_comm || stream == Stream::expert_comm;
}

// Counts the parameters of every unit. A parameter belongs to the first unit that uses it.
void count_parameters(const Graph& graph, bool shares_experts, std::vector<UnitProfile>& units) {
  std::vector<bool> counted(graph.parameters.size(), false);
  for (const Node& node : graph.nodes)
    for (const int id : node.inputs) {
      if (!is_weight(graph.tensor(id))) continue;
      const auto index = static_cast<std::size_t>(graph.tensor(id).parameter);
      if (counted[index]) continue;
      counted[index] = true;
      const Parameter& parameter = graph.parameters[index];
      UnitProfile& unit = units[graph.unit_of(node)];
      unit.parameters += parameter.shape.elements();
      if (shares_experts && parameter.of_experts)
        unit.expert_parameters += parameter.shape.elements();
    }
}

// Collects the steps of one body, unit by unit, and the collective of the same unit that each step
// waits for.
class StepLists {
 public:
  StepLists(const Body& body, const Machine& machine, std::vector<UnitProfile>& units)
      : body_(body), machine_(machine), units_(units), place_(body.instructions.size(), {-1, -1}) {}

  void add_compute(int unit, int instruction, double seconds) {
    UnitProfile::Step step;
    step.computes = true;
    step.compute_s = seconds;
    add(unit, instruction, step);
  }
  void add_collective(int unit, int instruction) {
    const Instruction& what = body_.instructions[instruction];
    UnitProfile::Step step;
    step.collective = collective_of(what, machine_);
    add(unit, instruction, step);
    place_[instruction] = {unit, static_cast<int>(steps_of(unit).size()) - 1};
  }

 private:
  std::vector<UnitProfile::Step>& steps_of(int unit) {
    UnitProfile& own = units_[unit];
    return body_.kind == Body::Kind::forward ? own.forward_steps : own.backward_steps;
  }

  void add(int unit, int instruction, UnitProfile::Step step) {
    step.phase = body_.instructions[instruction].phase;
    for (const Wait& wait : body_.instructions[instruction].waits) {
      if (wait.relation != Wait::Relation::same_task) continue;
      const auto [of_unit, place] = place_[wait.instruction];
      if (of_unit == unit) step.waits_for = std::max(step.waits_for, place);
    }
    steps_of(unit).push_back(step);
  }

  const Body& body_;
  const Machine& machine_;
  std::vector<UnitProfile>& units_;
  // For each instruction that is a collective, its unit and its index among the steps of the unit,
  // otherwise -1.
  std::vector<std::pair<int, int>> place_;
};

std::vector<UnitProfile> measure_units(const SmallModel& small, const CostModel& cost,
                                       const Machine& machine, bool shares_experts) {
  std::vector<UnitProfile> units(small.graph.units.size());
  for (std::size_t u = 0; u < units.size(); ++u) units[u].is_block = small.graph.units[u].is_block;
  for (const Body& body : small.program().bodies) {
    if (body.kind != Body::Kind::forward && body.kind != Body::Kind::backward) continue;
    StepLists steps(body, machine, units);
    for (int i = 0; i < static_cast<int>(body.instructions.size()); ++i) {
      const Instruction& instruction = body.instructions[i];
      if (instruction.when != When::always || instruction.module < 0) continue;
      const Module& module = small.graph.modules[instruction.module];
      UnitProfile& unit = units[module.unit];
      UnitProfile::Pass& pass = pass_of(unit, instruction.phase);
      if (instruction.kind == InstructionKind::compute) {
        const double seconds = cost.time(instruction, small.program()).value;
        pass.compute_s += seconds;
        steps.add_compute(module.unit, i, seconds);
        if (instruction.op == Op::linear_grad_weight ||
            instruction.op == Op::expert_linear_grad_weight)
          unit.weight_gradient_s += seconds;
      } else if (compute_waits_for(instruction.stream) && is_collective(instruction.kind)) {
        ++pass.collectives[collective_of(instruction, machine)];
        steps.add_collective(module.unit, i);
      } else if (instruction.stream == Stream::context_comm && is_collective(instruction.kind))
        ++pass.context_collectives[collective_of(instruction, machine)];
      else if (instruction.stream == Stream::context_comm &&
               instruction.kind == InstructionKind::ring_shift)
        ++pass.shifts[instruction.inputs[0].type.bytes()];
    }
  }
  count_parameters(small.graph, shares_experts, units);
  return units;
}

// Corrects the parameters of blocks if the first block of a stack holds parameters that all its
// blocks share (T5's relative positions). In `two` each stack has a second block, whose parameters
// are those that every block has.
void leave_shared_parameters(const std::vector<UnitProfile>& two, std::vector<UnitProfile>& units) {
  std::size_t place = 0;
  for (UnitProfile& unit : units) {
    if (unit.is_block) {
      ++place;
      unit.parameters = two[place].parameters;
      unit.expert_parameters = two[place].expert_parameters;
    }
    ++place;
  }
}

Model all_alike(Model model, BlockKind kind) {
  model.dense_blocks.clear();
  for (int block = 0; kind.dense && block < model.layers; ++block)
    model.dense_blocks.push_back(block);
  return model;
}

}  // namespace

BlockKinds kinds_of_blocks(const Model& model, const Training& training) {
  // The first kind also has the units that are not blocks. Among these, multi-token prediction is
  // like the last block.
  BlockKind first;
  first.dense =
      training.mtp_layers > 0 && model.experts > 0 && !model.has_experts(model.layers - 1);
  BlockKinds found{{first}, {}};
  for (int block = 0; block < model.layers; ++block) {
    const BlockKind kind{training.is_in_bf16(block, model.layers),
                         model.experts > 0 && !model.has_experts(block)};
    const auto known = std::ranges::find(found.kinds, kind);
    found.of_block.push_back(known - found.kinds.begin());
    if (known == found.kinds.end()) found.kinds.push_back(kind);
  }
  return found;
}

double straggling_of(const Candidate& candidate, const Cluster& cluster) {
  const int of_experts =
      candidate.experts_over_tensor() ? candidate.expert : candidate.tensor * candidate.expert;
  return straggling(cluster.machine.gpu.kernels, cluster.ranks(),
                    std::max(candidate.tensor * candidate.context, of_experts));
}

Profiles::Profiles(const Model& model, const Plan& base, const Cluster& cluster, BlockKind kind)
    : model_(model), base_(base), cluster_(cluster), kind_(kind), alike_(all_alike(model, kind)) {}

namespace {

// Returns the bytes of a stage for one micro-batch. Temporary memory of the end of the step is left
// out, because it is as large as a bucket, which may be smaller in a plan that shards it.
StageBytes bytes_of(const Program& program) {
  StageBytes bytes{program.memory.slots.front().stride - expert_outputs_of_slot(program, 0), 0, 0};
  for (const Buffer& each : program.memory.buffers) {
    if (each.region != Region::task || each.body < 0 ||
        program.bodies[each.body].kind == Body::Kind::step_end)
      continue;
    bytes.task = std::max(bytes.task, round_up(each.offset + each.bytes, arena_alignment));
    bytes.largest_task = std::max(bytes.largest_task, each.bytes);
  }
  return bytes;
}

}  // namespace

const ModelProfile& Profiles::of(const Candidate& candidate, Recompute recompute) {
  Candidate whole = candidate;  // a split backward does the same work
  whole.schedule = ScheduleKind::one_f_one_b;
  return profiles_.get(key_of(whole, recompute),
                       [&] { return measure(fastest_of(whole, recompute)); });
}

const KeptBytes& Profiles::kept(const Candidate& candidate, Recompute recompute) {
  return kept_.get(key_of(candidate, recompute), [&] {
    const Plan plan = smallest_of(candidate, recompute);
    const bool is_known = offloaded_activations(candidate) == Offload::none &&
                          !schedule_info(candidate.schedule).splits_backwards &&
                          plan == fastest_of(candidate, recompute);
    const StageBytes one = is_known ? of(candidate, recompute).one_block
                                    : bytes_of(lower_small(alike_, plan, 1).program());
    return measure_kept(one, plan);
  });
}

const std::vector<UnitProfile::Pass>& Profiles::deferred(const Candidate& candidate,
                                                         Recompute recompute) {
  return deferred_.get(key_of(candidate, recompute),
                       [&] { return measure_deferred(fastest_of(candidate, recompute)); });
}

const std::vector<double>& Profiles::costs(const Candidate& candidate) {
  Candidate whole = candidate;
  whole.schedule = ScheduleKind::one_f_one_b;
  // Only the pass that rematerializes rows looks at offloading, and only whether it is by layers.
  if (whole.offload != Offload::layers) whole.offload = Offload::none;
  const double fraction = is_mixed(candidate) ? candidate.recompute_fraction : 1;
  const bool rounds_again =
      quantizes(base_.training.precision) && candidate.zero_stage == 3 && candidate.shards() > 1;
  return costs_.get(std::tuple(key_of(whole, candidate.recompute), fraction, rounds_again),
                    [&] { return measure_costs(whole); });
}

const StageProfile& Profiles::stages(const Candidate& candidate, Recompute recompute) {
  return stages_.get(key_of(candidate, recompute),
                     [&] { return measure_stages(smallest_of(candidate, recompute)); });
}

// Returns the messages of a plain plan, because what is saved, recomputed or deferred does not
// cross a boundary.
const Messages& Profiles::messages(const Candidate& candidate) {
  Candidate plain = keeping(candidate);
  plain.schedule = ScheduleKind::one_f_one_b;
  return messages_.get(key_of(plain, Recompute::none),
                       [&] { return measure_messages(plan_of(plain, Recompute::none)); });
}

Profiles::Key Profiles::key_of(const Candidate& candidate, Recompute recompute) {
  return {candidate.tensor,
          candidate.context,
          candidate.context_exchange,
          candidate.context_heads,
          candidate.micro_batch,
          recompute,
          offloaded_activations(candidate),
          candidate.sequence_parallel,
          candidate.expert,
          candidate.experts_over_tensor(),
          candidate.compiler,
          schedule_info(candidate.schedule).splits_backwards,
          candidate.tensor_chunks};
}

Plan Profiles::plan_of(const Candidate& candidate, Recompute recompute) const {
  Plan plan = to_plan(candidate, base_);
  plan.parallelism.offload = offloaded_activations(candidate);
  plan.training.recompute = recompute;
  plan.training.recompute_fraction = 1;
  plan.training.recompute_budget.reset();
  plan.training.first_layers_in_bf16 = kind_.in_bf16 ? std::numeric_limits<int>::max() : 0;
  plan.training.last_layers_in_bf16 = 0;
  return plan;
}

Plan Profiles::fastest_of(const Candidate& candidate, Recompute recompute) const {
  return taking_most_memory(plan_of(candidate, recompute));
}

Plan Profiles::smallest_of(const Candidate& candidate, Recompute recompute) const {
  return taking_least_memory(plan_of(candidate, recompute));
}

ModelProfile Profiles::measure(const Plan& plan) const {
  const SmallModel one = lower_small(alike_, plan, 1);
  ModelProfile profile;
  const CostModel cost(cluster_, plan.training);
  const bool shares = plan.degrees().has_expert_groups();
  profile.units = measure_units(one, cost, cluster_.machine, shares);
  if (model_.has_decoder())
    leave_shared_parameters(
        measure_units(lower_small(alike_, plan, 2), cost, cluster_.machine, shares), profile.units);
  if (model_.is_fixed())  // each unit stands for itself only
    for (UnitProfile& unit : profile.units) unit.is_block = false;
  profile.layers = model_.layers;
  profile.shares_layers = model_.shares_layers();
  profile.one_block = bytes_of(one.program());
  return profile;
}

KeptBytes Profiles::measure_kept(const StageBytes& one, const Plan& plan) const {
  KeptBytes kept;
  // Under a recompute budget the lower bound of the saved bytes is 0, because only the exact plan
  // knows them.
  if (base_.training.recompute_budget) return kept;
  kept.task = one.task;
  kept.largest_task = one.largest_task;
  if (model_.is_fixed()) {
    kept.other = one.kept;
    return kept;
  }
  const std::int64_t two = bytes_of(lower_small(alike_, plan, 2).program()).kept;
  kept.block = std::max<std::int64_t>(0, two - one.kept);
  kept.other = std::max<std::int64_t>(0, 2 * one.kept - two);
  return kept;
}

// Returns the deferred work of blocks on a stage in the middle, and of the units after them on the
// last stage. The units before the blocks are on the first stage, which defers its whole backward
// because no stage waits for it.
std::vector<UnitProfile::Pass> Profiles::measure_deferred(const Plan& plan) const {
  const SmallModel small = lower_small(alike_, plan, blocks_of_stages, blocks_of_stages);
  const CostModel cost(cluster_, plan.training);
  std::vector<UnitProfile::Pass> units(small.graph.units.size());
  for (const Program& program : small.stages)
    for (const Body& body : program.bodies) {
      if (body.kind != Body::Kind::weights) continue;
      for (const Instruction& instruction : body.instructions) {
        if (instruction.when != When::always || instruction.module < 0) continue;
        UnitProfile::Pass& pass = units[small.graph.modules[instruction.module].unit];
        if (instruction.kind == InstructionKind::compute)
          pass.compute_s += cost.time(instruction, program).value;
        else if (compute_waits_for(instruction.stream) && is_collective(instruction.kind))
          ++pass.collectives[collective_of(instruction, cluster_.machine)];
      }
    }
  const auto is_block = [](const Unit& unit) { return unit.is_block; };
  const auto first = std::find_if(small.graph.units.begin(), small.graph.units.end(), is_block);
  const auto first_block = units.begin() + (first - small.graph.units.begin());
  units.erase(first_block + 2);
  units.erase(first_block);  // the block in the middle stays
  return units;
}

// Returns the number of blocks after which the pattern of recomputed blocks repeats, at most
// `layers`.
int period_of(double fraction, int layers) {
  int period = 1;
  while (period < layers && std::floor(period * fraction) != period * fraction) ++period;
  return period;
}

// Returns the number of blocks at the beginning that differ from all later ones: those without
// experts if all other blocks have experts.
int odd_blocks(const Model& model) {
  const auto dense = static_cast<int>(model.dense_blocks.size());
  return dense > 0 && model.dense_blocks.back() == dense - 1 ? dense : 0;
}

// Returns the number of blocks, from `first` on, after which their kinds repeat.
int period_of_kinds(const Model& model, int first) {
  const auto alike = [&](int a, int b) {
    return model.has_experts(a) == model.has_experts(b) &&
           model.window_of(a) == model.window_of(b) && model.has_rotary(a) == model.has_rotary(b);
  };
  for (int period = 1; first + period < model.layers; ++period) {
    bool repeats = true;
    for (int block = first; block + period < model.layers && repeats; ++block)
      repeats = alike(block, block + period);
    if (repeats) return period;
  }
  return std::max(1, model.layers - first);
}

// Returns the costs of all units. The costs of a block depend on its neighbours, so a smaller model
// is measured that has the odd blocks at both ends and at least three periods of the blocks between
// them.
std::vector<double> Profiles::measure_costs(const Candidate& candidate) const {
  const double fraction = is_mixed(candidate) ? candidate.recompute_fraction : 1;
  Plan plan = to_plan(candidate, base_);
  plan.training.recompute_budget.reset();
  plan = cut_by(plan);
  Model model = model_;
  const int first = std::max(plan.training.first_layers_in_bf16, odd_blocks(model_));
  const int last = plan.training.last_layers_in_bf16;
  const int period = std::lcm(period_of(fraction, model_.layers), period_of_kinds(model_, first));
  const int few = first + 3 * period + last;
  if (few < model_.layers) model.layers = few + (model_.layers - few) % period;
  std::erase_if(model.dense_blocks, [&](int block) { return block >= model.layers; });
  const Parallelism& p = plan.parallelism;
  const Graph graph =
      run_passes(build_graph_of_rank(model, plan.training, p.tensor, p.sequence_parallel), plan,
                 device_facts(cluster_, plan.training.precision));
  const std::vector<double> small = CostModel(cluster_, plan.training).unit_costs(graph);
  std::vector<double> costs;
  int block = 0;
  for (std::size_t unit = 0; unit < small.size(); ++unit) {
    costs.push_back(small[unit]);
    if (!graph.units[unit].is_block || ++block != first + 2 * period) continue;
    // The blocks that the smaller model lacks have the costs of the period before them.
    for (int more = model.layers; more < model_.layers; ++more)
      costs.push_back(costs[costs.size() - period]);
  }
  return costs;
}

Messages Profiles::measure_messages(const Plan& plan) const {
  const SmallModel small = lower_small(alike_, plan, blocks_of_stages, blocks_of_stages);
  Messages messages;
  for (const Body& body : small.stages[1].bodies)
    for (const Instruction& instruction : body.instructions)
      if (instruction.kind == InstructionKind::send)
        (instruction.peer > 1 ? messages.onwards : messages.back)
            .push_back(instruction.inputs[0].type.bytes());
  return messages;
}

StageProfile Profiles::measure_stages(const Plan& plan) const {
  const SmallModel small = lower_small(alike_, plan, blocks_of_stages, blocks_of_stages);
  StageProfile profile;
  profile.first = bytes_of(small.stages[0]);
  profile.middle = bytes_of(small.stages[1]);
  profile.last = bytes_of(small.stages[2]);
  const SmallModel more = lower_small(alike_, plan, blocks_of_stages + 1, blocks_of_stages);
  profile.middle_block_kept = bytes_of(more.stages[1]).kept - profile.middle.kept;
  while (!small.graph.units[profile.units_before].is_block) ++profile.units_before;
  return profile;
}

namespace {

Cluster on_one_host(Cluster cluster) {
  cluster.hosts = 1;
  return cluster;
}

}  // namespace

ModelProfiles::ModelProfiles(const Model& model, const Plan& base, const Cluster& cluster)
    : model_(model),
      base_(base),
      cluster_(on_one_host(cluster)),
      blocks_(kinds_of_blocks(model, base.training)) {
  for (const BlockKind kind : blocks_.kinds)
    kinds_.push_back(std::make_unique<Profiles>(model_, base_, cluster_, kind));
}

bool ModelProfiles::are_of(const Model& model, const Plan& base, const Cluster& cluster) const {
  // The ranks of a CPU computer share its cores and its memory.
  const bool are_like_ranks = cluster.machine.gpu.kind == DeviceKind::gpu ||
                              cluster.processes_per_host == cluster_.processes_per_host;
  return cluster.machine.name == cluster_.machine.name && are_like_ranks && base == base_ &&
         model == model_;
}

std::size_t ModelProfiles::count() const {
  std::size_t count = 0;
  for (const auto& profiles : kinds_) count += profiles->count();
  return count;
}

std::shared_ptr<ModelProfiles> SharedProfiles::of(const Model& model, const Plan& base,
                                                  const Cluster& cluster) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(
      known_, [&](const auto& each) { return each->are_of(model, base, cluster); });
  if (known != known_.end()) return *known;
  return known_.emplace_back(std::make_shared<ModelProfiles>(model, base, cluster));
}

}  // namespace meshwright::sim
