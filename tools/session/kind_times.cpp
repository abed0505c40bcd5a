#include "tools/session/kind_times.h"

#include <algorithm>
#include <map>
#include <set>

namespace meshwright::session {

namespace {

// Returns the kind of an instruction: its name without the module, and without the peer of a
// message.
std::string kind_of(Instruction instruction, const Program& program) {
  instruction.module = -1;
  std::string name = instruction_name(instruction, program);
  if (instruction.kind == InstructionKind::send) return "send";
  if (instruction.kind == InstructionKind::recv) return "recv";
  return name;
}

using Times = std::map<std::string, double>;

// Returns the seconds of each kind: the mean over the ranks of a stage, and then the mean over the
// stages, because every stage has the same number of ranks.
Times times_of(const Timeline& timeline, const std::vector<Program>& stages, const Mesh& mesh) {
  std::vector<std::set<int>> ranks(stages.size());
  for (const TimelineEntry& entry : timeline.entries)
    ranks[mesh.coordinates(entry.rank).pipeline].insert(entry.rank);
  Times times;
  for (const TimelineEntry& entry : timeline.entries) {
    const std::size_t stage = mesh.coordinates(entry.rank).pipeline;
    const Program& program = stages[stage];
    const Body& body = program.bodies[program.tasks[entry.task].body];
    times[kind_of(body.instructions[entry.instruction], program)] +=
        to_seconds(entry.end - entry.begin).value /
        static_cast<double>(ranks[stage].size() * stages.size());
  }
  return times;
}

}  // namespace

std::vector<KindTime> kind_times(const Timeline& predicted, const Timeline& measured,
                                 const std::vector<Program>& stages, const Mesh& mesh) {
  Times before = times_of(predicted, stages, mesh), after = times_of(measured, stages, mesh);
  std::set<std::string> kinds;
  for (const Times* times : {&before, &after})
    for (const auto& [kind, seconds] : *times) kinds.insert(kind);
  std::vector<KindTime> list;
  for (const std::string& kind : kinds) list.push_back({kind, before[kind], after[kind]});
  std::ranges::stable_sort(
      list, [](const KindTime& a, const KindTime& b) { return a.measured_s > b.measured_s; });
  return list;
}

}  // namespace meshwright::session
