#include "sim/replay/port_loads.h"

#include <algorithm>

#include "sim/cost/cost.h"
#include "sim/replay/link_uses.h"

namespace meshwright::sim {

namespace {

std::int32_t load(double share) {
  return static_cast<std::int32_t>(std::clamp(share, 0.0, 1.0) * whole_port);
}

std::int32_t& load_at(PortLoads& loads, Port port) { return loads[static_cast<std::size_t>(port)]; }

struct Directions {
  bool out = false, in = false;
};

Directions directions_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::compute:
    case InstructionKind::load_input:
    case InstructionKind::optimizer_step:
      return {};
    case InstructionKind::send:
    case InstructionKind::copy_out:
      return {true, false};
    case InstructionKind::recv:
    case InstructionKind::copy_in:
      return {false, true};
    default:
      return {true, true};
  }
}

}  // namespace

void PortUse::visit(std::span<const int> ranks, Reach& reach) const {
  std::map<int, int> on_host;
  for (const int rank : ranks)
    reach.per_host = std::max(reach.per_host, ++on_host[topology_.cluster().host_of(rank)]);
  reach.across = reach.across || on_host.size() > 1;
}

PortUse::Reach PortUse::of_groups(GroupKind kind) {
  const auto [found, is_new] = known_.try_emplace({-1, static_cast<int>(kind)});
  if (is_new)
    for (const std::vector<int>& group : mesh_.groups(kind)) visit(group, found->second);
  return found->second;
}

PortUse::Reach PortUse::of_message(int from, int to) {
  const auto [found, is_new] = known_.try_emplace({std::min(from, to), std::max(from, to)});
  if (is_new)
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      Coordinates place = mesh_.coordinates(rank);
      if (place.pipeline != from) continue;
      place.pipeline = to;
      visit(std::array{rank, mesh_.rank(place)}, found->second);
    }
  return found->second;
}

PortLoads loads_of_host_copy(bool out, const Machine& machine) {
  PortLoads loads{};
  if (!machine.shared_memory) load_at(loads, out ? Port::host_out : Port::host_in) = whole_port;
  return loads;
}

PortLoads loads_of(const PortTraffic& traffic, const Topology& topology, Seconds lasts) {
  PortLoads loads{};
  const Machine& machine = topology.cluster().machine;
  if (lasts.value <= 0) return loads;
  const auto use = [&](Port out, Port in, double share) {
    if (traffic.out) load_at(loads, out) = load(share);
    if (traffic.in) load_at(loads, in) = load(share);
  };
  if (traffic.across) use(Port::network_out, Port::network_in, 1);
  if (machine.shared_memory) return loads;
  if (machine.nvlink.kind == NvlinkKind::none) {
    const double bandwidth = host_copy_bandwidth(topology.cluster());
    use(Port::host_out, Port::host_in, traffic.bytes / (bandwidth * lasts.value));
  } else if (traffic.ranks_here > 1) {
    const double bandwidth = machine.nvlink.links_per_gpu *
                             machine.nvlink.link_bandwidth_bytes_per_s * machine.nvlink.efficiency;
    use(Port::nvlink_out, Port::nvlink_in, traffic.bytes_here / (bandwidth * lasts.value));
  }
  return loads;
}

PortLoads PortUse::of(const Instruction& instruction, int stage, Seconds lasts) {
  const auto [out, in] = directions_of(instruction.kind);
  if ((!out && !in) || lasts.value <= 0) return {};
  if (instruction.kind == InstructionKind::copy_out || instruction.kind == InstructionKind::copy_in)
    return loads_of_host_copy(out, topology_.cluster().machine);
  const bool message =
      instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
  const Reach reach = message ? of_message(stage, instruction.peer) : of_groups(instruction.group);
  const int members = message ? 1 : mesh_.size_of(instruction.group);
  return loads_of({out, in, reach.across, reach.per_host, bytes_moved(instruction, members),
                   bytes_moved(instruction, message ? 1 : reach.per_host)},
                  topology_, lasts);
}

}  // namespace meshwright::sim
