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

PortLoads PortUse::of(const Instruction& instruction, int stage, Seconds lasts) {
  PortLoads loads{};
  const Directions ways = directions_of(instruction.kind);
  const Machine& machine = topology_.cluster().machine;
  if ((!ways.out && !ways.in) || lasts.value <= 0) return loads;
  const auto use = [&](Port out, Port in, double share) {
    if (ways.out) load_at(loads, out) = load(share);
    if (ways.in) load_at(loads, in) = load(share);
  };
  const bool copies =
      instruction.kind == InstructionKind::copy_out || instruction.kind == InstructionKind::copy_in;
  if (copies) {
    if (!machine.shared_memory) use(Port::host_out, Port::host_in, 1);
    return loads;
  }
  const bool message =
      instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
  const Reach reach = message ? of_message(stage, instruction.peer) : of_groups(instruction.group);
  if (reach.across) use(Port::network_out, Port::network_in, 1);
  if (machine.shared_memory) return loads;
  const auto share = [&](double bytes, double bandwidth) {
    return bytes / (bandwidth * lasts.value);
  };
  if (machine.nvlink.kind == NvlinkKind::none) {
    const int members = message ? 1 : mesh_.size_of(instruction.group);
    use(Port::host_out, Port::host_in,
        share(bytes_moved(instruction, members), host_copy_bandwidth(topology_.cluster())));
  } else if (reach.per_host > 1) {
    const double bandwidth = machine.nvlink.links_per_gpu *
                             machine.nvlink.link_bandwidth_bytes_per_s * machine.nvlink.efficiency;
    use(Port::nvlink_out, Port::nvlink_in,
        share(bytes_moved(instruction, message ? 1 : reach.per_host), bandwidth));
  }
  return loads;
}

}  // namespace meshwright::sim
