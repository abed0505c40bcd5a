#include "models/plan/walk.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/core/index.h"

namespace meshwright {

namespace {

int lane_of(Stream stream, LaneOrder order) {
  if (order == LaneOrder::streams) return static_cast<int>(stream);
  return stream == Stream::pipe_send ? 1 : stream == Stream::pipe_recv ? 2 : 0;
}

Contact message_of(const Program& program, const Body& body, const Instruction& instruction) {
  Contact contact;
  contact.from = program.layout.virtual_stage(program.stage, body.chunk);
  contact.to = peer_virtual_stage(program, instruction);
  contact.sender = program.stage;
  contact.receiver = instruction.peer;
  contact.channel = instruction.channel;
  if (instruction.kind == InstructionKind::recv) {
    std::swap(contact.from, contact.to);
    std::swap(contact.sender, contact.receiver);
  }
  return contact;
}

// False when it has none.
bool contact_of(const Program& program, const Body& body, const Instruction& instruction,
                Contact& contact) {
  switch (instruction.kind) {
    case InstructionKind::send:
    case InstructionKind::recv:
      contact = message_of(program, body, instruction);
      return true;
    case InstructionKind::all_reduce:
    case InstructionKind::all_gather:
    case InstructionKind::reduce_scatter:
    case InstructionKind::all_to_all:
    case InstructionKind::broadcast:
    case InstructionKind::ring_shift:
    case InstructionKind::reduce:
      contact = {instruction.group, instruction.stream};
      return true;
    default:
      return false;
  }
}

// Forward and backward messages of one channel between two virtual stages cannot be mixed up: their
// direction differs.
int index_of(const Contact& contact, std::vector<Contact>& contacts) {
  const auto found = std::find(contacts.begin(), contacts.end(), contact);
  if (found != contacts.end()) return static_cast<int>(found - contacts.begin());
  contacts.push_back(contact);
  return static_cast<int>(contacts.size()) - 1;
}

// Where player `p` is in the contacts: the stages that have each one.
std::vector<std::vector<bool>> users_of(const std::vector<Script>& scripts, std::size_t contacts) {
  std::vector<std::vector<bool>> uses(scripts.size(), std::vector<bool>(contacts, false));
  for (std::size_t s = 0; s < scripts.size(); ++s)
    for (const Script::Step& step : scripts[s].steps())
      if (step.contact >= 0) uses[s][at(step.contact)] = true;
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

Script::Script(const Program& program, LaneOrder order, std::vector<Contact>& contacts)
    : program_(&program),
      resolve_(program),
      lanes_(order == LaneOrder::streams ? stream_count : 3) {
  for (const Body& body : program.bodies)
    for (int lane = 0; lane < lanes_; ++lane) {
      first_step_.push_back(static_cast<int>(steps_.size()));
      for (std::size_t i = 0; i < body.instructions.size(); ++i) {
        const Instruction& instruction = body.instructions[i];
        if (lane_of(instruction.stream, order) != lane) continue;
        Step step;
        step.instruction = static_cast<int>(i);
        step.when = instruction.when;
        Contact contact;
        if (contact_of(program, body, instruction, contact))
          step.contact = index_of(contact, contacts);
        step.first_wait = static_cast<int>(waits_.size());
        for (const Wait& wait : instruction.waits) {
          waits_.push_back(wait);
          is_plain_.push_back(wait.relation == Wait::Relation::same_task &&
                              body.instructions[at(wait.instruction)].when == When::always);
        }
        step.end_wait = static_cast<int>(waits_.size());
        steps_.push_back(step);
      }
    }
  first_step_.push_back(static_cast<int>(steps_.size()));
  run_base_.push_back(0);
  for (const Task& task : program.tasks)
    run_base_.push_back(run_base_.back() +
                        static_cast<int>(program.bodies[at(task.body)].instructions.size()));
}

RunId Script::run_id(int run) const {
  const auto after = std::upper_bound(run_base_.begin(), run_base_.end(), run);
  const int task = static_cast<int>(after - run_base_.begin()) - 1;
  return {task, run - run_base_[at(task)]};
}

Cast cast_of_stages(const std::vector<Script>& scripts, const std::vector<Contact>& contacts) {
  Cast cast;
  const auto uses = users_of(scripts, contacts.size());
  cast.communicator.assign(scripts.size(), std::vector<int>(contacts.size(), -1));
  for (const Script& script : scripts) cast.scripts.push_back(&script);
  for (std::size_t contact = 0; contact < contacts.size(); ++contact) {
    if (!contacts[contact].is_message() && !spans_stages(contacts[contact].group)) continue;
    int size = contacts[contact].is_message() ? 2 : 0;
    if (size == 0)
      for (const auto& of_stage : uses) size += of_stage[contact] ? 1 : 0;
    if (size < 2) continue;
    for (std::size_t s = 0; s < scripts.size(); ++s)
      if (uses[s][contact]) cast.communicator[s][contact] = static_cast<int>(cast.sizes.size());
    cast.sizes.push_back(size);
  }
  return cast;
}

std::vector<std::vector<int>> meetings_at(const Contact& contact, const Mesh& mesh) {
  if (!contact.is_message()) return mesh.groups(contact.group);
  const Degrees& degrees = mesh.degrees();
  std::vector<std::vector<int>> pairs;
  for (int rdp = 0; rdp < degrees.rdp(); ++rdp)
    for (int tensor = 0; tensor < degrees.tensor; ++tensor)
      pairs.push_back(
          {mesh.rank({contact.sender, tensor, rdp}), mesh.rank({contact.receiver, tensor, rdp})});
  return pairs;
}

Cast cast_of_classes(const std::vector<Script>& scripts, const std::vector<Contact>& contacts,
                     const Mesh& mesh, const std::vector<int>& of_rank) {
  Cast cast;
  cast.scripts.resize(at(*std::max_element(of_rank.begin(), of_rank.end())) + 1);
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    cast.scripts[at(of_rank[at(rank)])] = &scripts[at(mesh.coordinates(rank).pipeline)];
  cast.communicator.assign(cast.scripts.size(), std::vector<int>(contacts.size(), -1));
  std::vector<int> players;
  for (std::size_t contact = 0; contact < contacts.size(); ++contact)
    for (const std::vector<int>& ranks : meetings_at(contacts[contact], mesh)) {
      players.clear();
      for (const int rank : ranks) players.push_back(of_rank[at(rank)]);
      std::sort(players.begin(), players.end());
      players.erase(std::unique(players.begin(), players.end()), players.end());
      if (players.size() < 2 || cast.communicator[at(players[0])][contact] >= 0) continue;
      for (const int player : players)
        cast.communicator[at(player)][contact] = static_cast<int>(cast.sizes.size());
      cast.sizes.push_back(static_cast<int>(players.size()));
    }
  return cast;
}

}  // namespace meshwright
