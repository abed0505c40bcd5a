#include "sim/replay/link_uses.h"
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/collectives/of_instruction.h"

namespace meshwright::sim {

namespace {

using Lanes = std::set<std::string_view>;

class Finder {
 public:
  Finder(const Mesh& mesh, const Topology& topology) : mesh_(mesh), topology_(topology) {}

  // Return the kinds of links on the ring through the group of a rank, or between a rank and its
  // peer in another stage.
  const Lanes& of_group(GroupKind kind, int rank) {
    return remembered({static_cast<int>(kind), rank, -1}, [&] {
      const std::vector<int> group = mesh_.group(kind, rank);
      Lanes lanes;
      for (std::size_t i = 0; i < group.size(); ++i)
        add(group[i], group[(i + 1) % group.size()], lanes);
      return lanes;
    });
  }
  const Lanes& of_message(int rank, int stage) {
    return remembered({-1, rank, stage}, [&] {
      Coordinates peer = mesh_.coordinates(rank);
      peer.pipeline = stage;
      Lanes lanes;
      add(rank, mesh_.rank(peer), lanes);
      return lanes;
    });
  }

 private:
  using Key = std::tuple<int, int, int>;

  template <class Find>
  const Lanes& remembered(const Key& key, const Find& find) {
    const auto found = known_.find(key);
    return found != known_.end() ? found->second : known_.emplace(key, find()).first->second;
  }

  void add(int from, int to, Lanes& lanes) const {
    if (from == to) return;
    for (const int link : topology_.route(from, to))
      lanes.insert(name_of(topology_.link(link).kind));
  }

  const Mesh& mesh_;
  const Topology& topology_;
  std::map<Key, Lanes> known_;
};

}  // namespace

double bytes_moved(const Instruction& instruction, int members) {
  const double whole = static_cast<double>(whole_bytes(instruction)), share = 1 - 1.0 / members;
  switch (instruction.kind) {
    case InstructionKind::all_reduce:
      return 2 * share * whole;
    case InstructionKind::all_gather:
    case InstructionKind::reduce_scatter:
    case InstructionKind::all_to_all:
      return share * whole;
    default:
      return whole;
  }
}

std::vector<LinkUse> link_uses(const Timeline& timeline, const std::vector<Program>& stages,
                               const Mesh& mesh, const Topology& topology) {
  static const Lanes to_host = {"PCIe"}, none;
  Finder finder(mesh, topology);
  std::vector<LinkUse> uses;
  for (const TimelineEntry& entry : timeline.entries) {
    const Program& program = stages[mesh.coordinates(entry.rank).pipeline];
    const Instruction& instruction =
        program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
    const Lanes* lanes = &none;
    int members = 1;
    switch (instruction.kind) {
      case InstructionKind::compute:
      case InstructionKind::load_input:
      case InstructionKind::optimizer_step:
        continue;
      case InstructionKind::copy_out:
      case InstructionKind::copy_in:
        if (!topology.cluster().machine.shared_memory) lanes = &to_host;
        break;
      case InstructionKind::send:
      case InstructionKind::recv:
        lanes = &finder.of_message(entry.rank, instruction.peer);
        break;
      default:
        lanes = &finder.of_group(instruction.group, entry.rank);
        members = mesh.size_of(instruction.group);
    }
    const double bytes = bytes_moved(instruction, std::max(1, members));
    for (const std::string_view lane : *lanes)
      uses.push_back({entry.rank, lane, entry.begin, entry.end, bytes});
  }
  return uses;
}

}  // namespace meshwright::sim
