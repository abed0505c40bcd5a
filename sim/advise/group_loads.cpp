#include "sim/advise/group_loads.h"

#include <algorithm>
#include <array>
#include <limits>

#include "models/program/mesh.h"
#include "sim/replay/link_uses.h"

namespace meshwright::sim {

namespace {

// Returns the group in which an instruction communicates. For messages it is `pipeline`. Returns
// nothing, or GroupKind::none, for an instruction without communication.
std::optional<GroupKind> group_of(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::compute:
    case InstructionKind::load_input:
    case InstructionKind::optimizer_step:
    case InstructionKind::copy_out:
    case InstructionKind::copy_in:
      return std::nullopt;
    case InstructionKind::send:
    case InstructionKind::recv:
      return GroupKind::pipeline;
    default:
      return instruction.group;
  }
}

void find_link(GroupLoad& load, const std::vector<int>& group, const Topology& topology) {
  load.link_bytes_per_s = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (const int id : topology.route(group[i], group[(i + 1) % group.size()])) {
      const Link& link = topology.link(id);
      if (link.bandwidth_bytes_per_s >= load.link_bytes_per_s) continue;
      load.link_bytes_per_s = link.bandwidth_bytes_per_s;
      load.link = name_of(link.kind);
    }
  }
}

}  // namespace

std::vector<GroupLoad> group_loads(const Compiled& compiled, const Prediction& prediction,
                                   const StepParts& parts, const Timeline& timeline,
                                   const Topology& topology) {
  const Program& program = compiled.stages[parts.stage];
  const Mesh mesh = program.settings->mesh();
  std::array<GroupLoad, group_kind_count> loads{};
  int rank = -1;
  for (const TimelineEntry& entry : timeline.entries) {
    if (rank < 0 && mesh.coordinates(entry.rank).pipeline == parts.stage) rank = entry.rank;
    if (entry.rank != rank) continue;
    const Instruction& instruction =
        program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
    const auto group = group_of(instruction);
    if (!group || *group == GroupKind::none) continue;
    GroupLoad& load = loads[static_cast<std::size_t>(*group)];
    const bool receives = instruction.kind == InstructionKind::recv;
    if (!receives) load.bytes += bytes_moved(instruction, std::max(1, mesh.size_of(*group)));
    load.needed += entry.end - entry.begin;
  }
  std::vector<GroupLoad> result;
  for (std::size_t kind = 0; kind < loads.size(); ++kind) {
    GroupLoad& load = loads[kind];
    if (load.needed == 0) continue;
    load.group = static_cast<GroupKind>(kind);
    load.exposed = prediction.stages[parts.stage].exposed_by[kind];
    find_link(load, mesh.group(load.group, rank), topology);
    result.push_back(load);
  }
  return result;
}

}  // namespace meshwright::sim
