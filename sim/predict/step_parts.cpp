#include "sim/predict/step_parts.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "models/core/error.h"
#include "models/core/index.h"
#include "models/graph/op_table.h"
#include "models/plan/mesh.h"

namespace meshwright {

namespace {

// What a device computes.
enum class Work : std::uint8_t { products, attention, other, recomputation, optimizer, count_ };
constexpr std::size_t works = static_cast<std::size_t>(Work::count_);
constexpr std::array<std::string_view, works> work_names = {
    "matrix products", "attention", "other kernels", "recomputation", "optimizer"};

// Of what the compute stream waited for, in the order of GroupKind.
constexpr std::array<std::string_view, group_kind_count> exposed_causes = {
    "exposed host copies",
    "exposed tensor communication",
    "exposed messages between stages",
    "exposed all-reduce of gradients",
    "exposed all-reduce over data and tensor",
    "exposed communication inside a replica",
    "exposed sharding",
    "exposed all-reduce of shards",
    "exposed context communication",
    "exposed expert communication",
    "exposed all-reduce of experts",
    "exposed sharding of experts",
    "exposed all-reduce of experts' shards",
    "exposed gradient norm",
    "exposed communication of all ranks",
    "exposed all-reduce of embeddings"};

Work work_of(const Instruction& instruction, const StepSettings& training) {
  std::vector<TensorType> inputs, outputs;
  for (const Operand& each : instruction.inputs) inputs.push_back(each.type);
  for (const Operand& each : instruction.outputs) outputs.push_back(each.type);
  std::vector<Kernel> kernels;
  info(instruction.op)
      .work({instruction.op, instruction.attributes, inputs, outputs}, training.compiler, kernels);
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == Kernel::Kind::attention) return Work::attention;
    if (kernel.kind != Kernel::Kind::memory) return Work::products;
  }
  return Work::other;
}

Work work_of(const Instruction& instruction, const Body& body, const StepSettings& training) {
  if (body.kind == Body::Kind::step_begin || body.kind == Body::Kind::step_end ||
      instruction.kind == InstructionKind::optimizer_step)
    return Work::optimizer;
  if (instruction.phase == Phase::recompute) return Work::recomputation;
  return instruction.kind == InstructionKind::compute ? work_of(instruction, training)
                                                      : Work::other;
}

std::array<SimTime, works> works_of_stage(const Program& program, const Mesh& mesh,
                                          const Timeline& timeline) {
  // Of an instruction, found once.
  std::vector<std::vector<int>> kinds(program.bodies.size());
  for (std::size_t b = 0; b < kinds.size(); ++b)
    kinds[b].assign(program.bodies[b].instructions.size(), -1);
  std::array<SimTime, works> times{};
  for (const TimelineEntry& entry : timeline.entries) {
    if (mesh.coordinates(entry.rank).pipeline != program.stage) continue;
    const std::size_t b = at(program.tasks[at(entry.task)].body);
    const Body& body = program.bodies[b];
    const Instruction& instruction = body.instructions[at(entry.instruction)];
    if (instruction.stream != Stream::compute) continue;
    int& kind = kinds[b][at(entry.instruction)];
    if (kind < 0) kind = static_cast<int>(work_of(instruction, body, program.settings->training));
    times[at(kind)] += entry.end - entry.begin;
  }
  return times;
}

// The same shares of another total. They are equal where all ranks of the stage are: then one
// stands for all in the timeline.
void scale_to(SimTime total, std::array<SimTime, works>& times) {
  SimTime sum = 0;
  for (const SimTime time : times) sum += time;
  if (sum == total || sum == 0) return;
  SimTime left = total;
  for (SimTime& time : times) {
    time = static_cast<SimTime>(static_cast<double>(time) * static_cast<double>(total) /
                                static_cast<double>(sum));
    left -= time;
  }
  *std::ranges::max_element(times) += left;
}

}  // namespace

std::string_view exposed_cause(GroupKind group) {
  return exposed_causes[static_cast<std::size_t>(group)];
}

StepParts step_parts(const Compiled& compiled, const Prediction& prediction,
                     const Timeline& timeline) {
  const auto busy = [](const StageTimes& times) {
    return times.compute_busy + times.exposed_communication + times.launch;
  };
  const auto longest = std::ranges::max_element(prediction.stages, {}, busy);
  StepParts result;
  result.stage = static_cast<int>(longest - prediction.stages.begin());
  result.step_time = prediction.step_time;
  const Program& program = compiled.stages[at(result.stage)];
  std::array<SimTime, works> computed = works_of_stage(program, program.settings->mesh(), timeline);
  scale_to(longest->compute_busy, computed);
  SimTime left = result.step_time;
  const auto add = [&](std::string_view cause, SimTime time) {
    result.parts.push_back({std::string(cause), time});
    left -= time;
  };
  for (std::size_t work = 0; work < works; ++work) add(work_names[work], computed[work]);
  add("kernel launches", longest->launch);
  for (std::size_t group = 0; group < longest->exposed_by.size(); ++group)
    add(exposed_causes[group], longest->exposed_by[group]);
  add("bubble", longest->bubble);
  add("idle", left);
  return result;
}

std::vector<PartChange> changes(const StepParts& from, const StepParts& to) {
  MESHWRIGHT_CHECK(from.parts.size() == to.parts.size(), "every step has the same parts");
  std::vector<PartChange> result;
  for (std::size_t i = 0; i < from.parts.size(); ++i)
    if (from.parts[i].time != to.parts[i].time)
      result.push_back({from.parts[i].cause, from.parts[i].time, to.parts[i].time});
  std::ranges::stable_sort(result, std::greater{},
                           [](const PartChange& each) { return std::abs(each.change()); });
  return result;
}

}  // namespace meshwright
