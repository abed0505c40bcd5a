#include "models/program/walk.h"

#include <algorithm>
#include <iterator>

namespace meshwright::program {

namespace {

constexpr int inline_lanes = 1 + 2 * static_cast<int>(std::size(message_streams));

int lane_of(Stream stream, LaneOrder order) {
  if (order == LaneOrder::streams) return static_cast<int>(stream);
  int lane = 0;
  for (const MessageStreams& streams : message_streams) {
    if (stream == streams.send) return lane + 1;
    if (stream == streams.recv) return lane + 2;
    lane += 2;
  }
  return 0;
}

Rendezvous message_of(const Program& program, const Body& body, const Instruction& instruction) {
  Rendezvous rendezvous;
  rendezvous.from = program.layout.virtual_stage(program.stage, body.chunk);
  rendezvous.to = peer_virtual_stage(program, instruction);
  rendezvous.sender = program.stage;
  rendezvous.receiver = instruction.peer;
  rendezvous.channel = instruction.channel;
  if (instruction.kind == InstructionKind::recv) {
    std::swap(rendezvous.from, rendezvous.to);
    std::swap(rendezvous.sender, rendezvous.receiver);
  }
  return rendezvous;
}

// Sets `rendezvous` to that of the instruction. Returns false if the instruction is neither a
// message nor a collective and has none.
bool rendezvous_of(const Program& program, const Body& body, const Instruction& instruction,
                   Rendezvous& rendezvous) {
  switch (instruction.kind) {
    case InstructionKind::send:
    case InstructionKind::recv:
      rendezvous = message_of(program, body, instruction);
      return true;
    case InstructionKind::all_reduce:
    case InstructionKind::all_gather:
    case InstructionKind::reduce_scatter:
    case InstructionKind::all_to_all:
    case InstructionKind::broadcast:
    case InstructionKind::ring_shift:
    case InstructionKind::reduce:
      rendezvous = {instruction.group, instruction.stream};
      return true;
    default:
      return false;
  }
}

// Returns the index of a rendezvous in the common list, to which it is added if it is new. Forward
// and backward messages between two virtual stages have different rendezvous, because their
// directions differ.
int index_of(const Rendezvous& rendezvous, std::vector<Rendezvous>& rendezvous_list) {
  const auto found = std::ranges::find(rendezvous_list, rendezvous);
  if (found != rendezvous_list.end()) return static_cast<int>(found - rendezvous_list.begin());
  rendezvous_list.push_back(rendezvous);
  return static_cast<int>(rendezvous_list.size()) - 1;
}

// Returns, by stage and rendezvous, whether the stage takes part in it.
std::vector<std::vector<bool>> users_of(const std::vector<Script>& scripts,
                                        std::size_t rendezvous_list) {
  std::vector<std::vector<bool>> uses(scripts.size(), std::vector<bool>(rendezvous_list, false));
  for (std::size_t s = 0; s < scripts.size(); ++s)
    for (const Script::Step& step : scripts[s].steps())
      if (step.rendezvous >= 0) uses[s][step.rendezvous] = true;
  return uses;
}

}  // namespace

bool spans_stages(GroupKind kind) {
  switch (kind) {
    case GroupKind::pipeline:
    case GroupKind::mp:
    case GroupKind::norm:
    case GroupKind::world:
    case GroupKind::embedding:
      return true;
    default:
      return false;
  }
}

Script::Script(const Program& program, LaneOrder order, std::vector<Rendezvous>& rendezvous_list)
    : program_(&program),
      resolve_(program),
      lanes_(order == LaneOrder::streams ? stream_count : inline_lanes) {
  for (const Body& body : program.bodies)
    for (int lane = 0; lane < lanes_; ++lane) {
      first_step_.push_back(static_cast<int>(steps_.size()));
      for (std::size_t i = 0; i < body.instructions.size(); ++i) {
        const Instruction& instruction = body.instructions[i];
        if (lane_of(instruction.stream, order) != lane) continue;
        Step step;
        step.instruction = static_cast<int>(i);
        step.when = instruction.when;
        step.receives = instruction.kind == InstructionKind::recv;
        Rendezvous rendezvous;
        if (rendezvous_of(program, body, instruction, rendezvous))
          step.rendezvous = index_of(rendezvous, rendezvous_list);
        step.first_wait = static_cast<int>(waits_.size());
        for (const Wait& wait : instruction.waits) {
          waits_.push_back(wait);
          is_plain_.push_back(wait.relation == Wait::Relation::same_task &&
                              body.instructions[wait.instruction].when == When::always);
        }
        step.end_wait = static_cast<int>(waits_.size());
        steps_.push_back(step);
      }
    }
  first_step_.push_back(static_cast<int>(steps_.size()));
  run_base_.push_back(0);
  for (const Task& task : program.tasks)
    run_base_.push_back(run_base_.back() +
                        static_cast<int>(program.bodies[task.body].instructions.size()));
}

RunId Script::run_id(int run) const {
  const auto after = std::upper_bound(run_base_.begin(), run_base_.end(), run);
  const int task = static_cast<int>(after - run_base_.begin()) - 1;
  return {task, run - run_base_[task]};
}

Participants participants_of_stages(const std::vector<Script>& scripts,
                                    const std::vector<Rendezvous>& rendezvous_list) {
  Participants participants;
  const auto uses = users_of(scripts, rendezvous_list.size());
  participants.communicator.assign(scripts.size(), std::vector<int>(rendezvous_list.size(), -1));
  for (const Script& script : scripts) participants.scripts.push_back(&script);
  for (std::size_t rendezvous = 0; rendezvous < rendezvous_list.size(); ++rendezvous) {
    if (!rendezvous_list[rendezvous].is_message() &&
        !spans_stages(rendezvous_list[rendezvous].group))
      continue;
    int size = rendezvous_list[rendezvous].is_message() ? 2 : 0;
    if (size == 0)
      for (const auto& of_stage : uses) size += of_stage[rendezvous] ? 1 : 0;
    if (size < 2) continue;
    for (std::size_t s = 0; s < scripts.size(); ++s)
      if (uses[s][rendezvous])
        participants.communicator[s][rendezvous] = static_cast<int>(participants.sizes.size());
    participants.sizes.push_back(size);
  }
  return participants;
}

std::vector<std::vector<int>> meetings_at(const Rendezvous& rendezvous, const Mesh& mesh) {
  if (!rendezvous.is_message()) return mesh.groups(rendezvous.group);
  const Degrees& degrees = mesh.degrees();
  std::vector<std::vector<int>> pairs;
  for (int rdp = 0; rdp < degrees.rdp(); ++rdp)
    for (int tensor = 0; tensor < degrees.tensor; ++tensor)
      pairs.push_back({mesh.rank({rendezvous.sender, tensor, rdp}),
                       mesh.rank({rendezvous.receiver, tensor, rdp})});
  return pairs;
}

Participants participants_of_classes(const std::vector<Script>& scripts,
                                     const std::vector<Rendezvous>& rendezvous_list,
                                     const Mesh& mesh, const std::vector<int>& of_rank) {
  Participants participants;
  participants.scripts.resize(*std::ranges::max_element(of_rank) + 1);
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    participants.scripts[of_rank[rank]] = &scripts[mesh.coordinates(rank).pipeline];
  participants.communicator.assign(participants.scripts.size(),
                                   std::vector<int>(rendezvous_list.size(), -1));
  std::vector<int> classes;
  for (std::size_t rendezvous = 0; rendezvous < rendezvous_list.size(); ++rendezvous)
    for (const std::vector<int>& ranks : meetings_at(rendezvous_list[rendezvous], mesh)) {
      classes.clear();
      for (const int rank : ranks) classes.push_back(of_rank[rank]);
      std::ranges::sort(classes);
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
      const bool message = rendezvous_list[rendezvous].is_message();  // of a stage to itself, too
      if ((classes.size() < 2 && !message) ||
          participants.communicator[classes[0]][rendezvous] >= 0)
        continue;
      for (const int each : classes)
        participants.communicator[each][rendezvous] = static_cast<int>(participants.sizes.size());
      participants.sizes.push_back(message ? 2 : static_cast<int>(classes.size()));
    }
  return participants;
}

}  // namespace meshwright::program
