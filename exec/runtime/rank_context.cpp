#include "exec/runtime/rank_context.h"

#include <set>

#include "exec/runtime/instruction_kinds.h"
#include "models/core/error.h"
#include "models/program/describe.h"
#include "models/program/graph/op_table.h"

namespace meshwright::exec {

namespace {

template <typename Visit>
void for_each_instruction(const Program& program, const Visit& visit) {
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions) visit(instruction);
}

}  // namespace

RankContext::RankContext(const std::vector<Program>& all_stages, World& its_world,
                         Backend& its_backend)
    : stages(all_stages),
      training(stages.front().settings->training),
      mesh(stages.front().settings->mesh()),
      world(its_world),
      backend(its_backend),
      streams(backend.streams()),
      own(mesh.coordinates(world.rank())),
      program(stages[own.pipeline]),
      scratch(reserve_scratch()),
      memory(program, mesh, world, backend) {
  MESHWRIGHT_CHECK(mesh.ranks() == world.size(), "the job has as many ranks as there are");
  make_groups();
}

std::string RankContext::describe(const RunId& run) const {
  return program::describe(program, program.tasks[run.task], instruction(run));
}

void RankContext::check_supported_here() const {
  const Dtype storage = storage_of(training.precision);
  const bool on_cpus =
      training.precision == Precision::nvfp4 || training.precision == Precision::fp64;
  if (on_cpus && !backend.computes_in(training.precision))
    throw InputError("/training/precision: " + std::string(name_of(training.precision)) +
                     " runs on the CPU engine only so far, not on " + std::string(backend.name()) +
                     "; use bf16, fp8 or fp32");
  if (!backend.computes_in(training.precision))
    throw InputError("/training/precision: " + std::string(name_of(training.precision)) +
                     " is an arithmetic of GPU tensor cores that this device (" +
                     std::string(backend.name()) + ") does not have; use fp32, fp16, bf16 or fp8");
  for_each_instruction(program, [&](const Instruction& instruction) {
    if (instruction.kind != InstructionKind::compute || is_of_updater(instruction)) return;
    if (instruction.op == Op::widen_weights && !backend.supports(instruction.op, storage))
      throw NotSupportedYet(
          "/training/lora/base_weights: weights in 4 bits run on the CPU engine "
          "only so far, not on " +
          std::string(backend.name()) + "; use 'unquantized'");
    const bool quantized =
        !instruction.inputs.empty() && is_quantized(instruction.inputs[0].type.dtype);
    if (!backend.supports(instruction.op, quantized ? instruction.inputs[0].type.dtype : storage))
      throw NotSupportedYet(
          "the backend " + std::string(backend.name()) + " cannot compute the operation " +
          std::string(info(instruction.op).name) + (quantized ? " in 8 or 4 bits yet" : " yet"));
  });
}

// Reserves scratch memory before the arena is made, because operations that get ready on the device
// may need memory for a while.
RankContext::Scratch RankContext::reserve_scratch() {
  check_supported_here();
  scratch_bytes =
      scratch_memory(program, [&](const OpCall& call) { return backend.workspace_bytes(call); });
  return {scratch_bytes > 0 ? backend.allocate(scratch_bytes) : nullptr, {&backend}};
}

// Makes the groups that the instructions of any stage need. Every rank goes through the kinds in
// the same order, whether it is in such a group or not.
void RankContext::make_groups() {
  everybody = world.on_host().group(GroupKind::world, mesh.group(GroupKind::world, world.rank()));
  std::set<GroupKind> kinds;
  bool back = false;
  for (const Program& each : stages)
    for_each_instruction(each, [&](const Instruction& instruction) {
      if (instruction.group != GroupKind::none) kinds.insert(instruction.group);
      if (instruction.peer >= 0) kinds.insert(GroupKind::pipeline);
      back = back || is_back(instruction.stream);
    });
  for (GroupKind kind : kinds) {
    const std::vector<int> ranks = mesh.group(kind, world.rank());
    if (!ranks.empty()) groups[kind] = world.group(kind, ranks);
  }
  if (back)
    stages_back = world.group(GroupKind::pipeline, mesh.group(GroupKind::pipeline, world.rank()));
}

}  // namespace meshwright::exec
