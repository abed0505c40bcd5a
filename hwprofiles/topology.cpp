#include "hwprofiles/topology.h"

#include <algorithm>
#include <utility>

#include "models/core/error.h"

namespace meshwright::hwprofiles {

namespace {

std::string numbered(const char* word, int index) { return word + std::to_string(index); }

}  // namespace

std::string_view name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "NVLink";
    case LinkKind::pcie:
    case LinkKind::uplink:
    case LinkKind::socket:
      return "PCIe";
    case LinkKind::nic:
      return "network";
    case LinkKind::shared_memory:
      return "shared memory";
  }
  return "";
}

Topology::Topology(Cluster cluster)
    : cluster_(std::move(cluster)), gpus_(cluster_.processes_per_host) {
  const Machine& machine = cluster_.machine;
  if (gpus_ < 1 || gpus_ > machine.gpus)
    throw InputError("cluster: " + std::to_string(gpus_) + " processes per host do not fit " +
                     machine.name + ", which takes 1 to " + std::to_string(machine.gpus));
  if (cluster_.hosts > 1 && cluster_.network().nics == 0)
    throw InputError("cluster: " + machine.name + " has no network; use one host");
  if (machine.shared_memory) {
    add_shared_memory();
    return;
  }
  add_nvlink();
  add_pcie();
  add_network();
  fill_local_routes();
}

int Topology::add_link(LinkKind kind, double bandwidth, std::string name) {
  links_.push_back({kind, bandwidth, std::move(name)});
  return links_per_host() - 1;
}

// Adds the links of a CPU host: one for the copies of each rank, one for the memory that all ranks
// share, and two for the NICs if it has any.
void Topology::add_shared_memory() {
  const SharedMemory& memory = *cluster_.machine.shared_memory;
  const int all = add_link(LinkKind::shared_memory, memory.total_bandwidth_bytes_per_s, "memory");
  for (int rank = 0; rank < gpus_; ++rank)
    add_link(LinkKind::shared_memory, memory.rank_bandwidth_bytes_per_s, numbered("rank", rank));
  local_.resize(gpus_ * gpus_);
  for (int from = 0; from < gpus_; ++from)
    for (int to = 0; to < gpus_; ++to)
      if (from != to) local_[from * gpus_ + to] = {1 + from, all};
  // All ranks of a host share its NICs. Copies between a rank's memory and the NICs are taken to
  // cost nothing, because memory is usually far faster than NICs.
  const Network network = cluster_.network();
  if (network.nics == 0) return;
  const double nics = network.gbit_per_s_each * 1e9 / 8 * network.efficiency * network.nics;
  leave_.assign(gpus_, {add_link(LinkKind::nic, nics, "nics -> fabric")});
  arrive_.assign(gpus_, {add_link(LinkKind::nic, nics, "fabric -> nics")});
}

void Topology::add_nvlink() {
  const Nvlink& nvlink = cluster_.machine.nvlink;
  const double one = nvlink.link_bandwidth_bytes_per_s * nvlink.efficiency;
  const int gpus = cluster_.machine.gpus;
  if (nvlink.kind == NvlinkKind::matrix) {
    nvlink_.assign(gpus, std::vector<int>(gpus, -1));
    for (int a = 0; a < gpus; ++a)
      for (int b = 0; b < gpus; ++b)
        if (const int links = nvlink.links_between[a][b]; links > 0)
          nvlink_[a][b] =
              add_link(LinkKind::nvlink, one * links, numbered("gpu", a) + numbered(" -> gpu", b));
  }
  if (nvlink.kind == NvlinkKind::nvswitch)
    for (int gpu = 0; gpu < gpus; ++gpu) {  // their ids are 2 * gpu and 2 * gpu + 1
      add_link(LinkKind::nvlink, one * nvlink.links_per_gpu, numbered("gpu", gpu) + " -> nvswitch");
      add_link(LinkKind::nvlink, one * nvlink.links_per_gpu, numbered("nvswitch -> gpu", gpu));
    }
}

void Topology::add_pcie() {
  const Pcie& pcie = cluster_.machine.pcie;
  const int gpus = cluster_.machine.gpus;
  switch_of_.assign(gpus, 0);
  int sockets = 1;
  for (int s = 0; s < static_cast<int>(pcie.switches.size()); ++s) {
    for (const int gpu : pcie.switches[s].gpus) switch_of_[gpu] = s;
    sockets = std::max(sockets, pcie.switches[s].numa + 1);
    uplink_.push_back(add_link(LinkKind::uplink, pcie.uplink_bandwidth_bytes_per_s,
                               numbered("switch", s) + " -> socket"));
    downlink_.push_back(add_link(LinkKind::uplink, pcie.uplink_bandwidth_bytes_per_s,
                                 numbered("socket -> switch", s)));
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    gpu_up_.push_back(add_link(LinkKind::pcie, pcie.gpu_bandwidth_bytes_per_s,
                               numbered("gpu", gpu) + " -> switch"));
    gpu_down_.push_back(
        add_link(LinkKind::pcie, pcie.gpu_bandwidth_bytes_per_s, numbered("switch -> gpu", gpu)));
  }
  socket_.assign(sockets, std::vector<int>(sockets, -1));
  for (int a = 0; a < sockets; ++a)
    for (int b = 0; b < sockets; ++b)
      if (a != b)
        socket_[a][b] = add_link(LinkKind::socket, pcie.socket_bandwidth_bytes_per_s,
                                 numbered("socket", a) + numbered(" -> socket", b));
}

// Returns the NICs below each switch. If the job sets another number of NICs than the machine has,
// they are spread evenly over the switches that have GPUs.
std::vector<std::vector<int>> Topology::nics_of_switches() const {
  const auto& switches = cluster_.machine.pcie.switches;
  std::vector<std::vector<int>> nics(switches.size());
  const int wanted = cluster_.network().nics;
  if (wanted == cluster_.machine.network.nics) {
    for (std::size_t s = 0; s < switches.size(); ++s) nics[s] = switches[s].nics;
    return nics;
  }
  std::vector<std::size_t> with_gpus;
  for (std::size_t s = 0; s < switches.size(); ++s)
    if (!switches[s].gpus.empty()) with_gpus.push_back(s);
  for (int nic = 0; nic < wanted; ++nic)
    nics[with_gpus[nic * with_gpus.size() / wanted]].push_back(nic);
  return nics;
}

// Returns the switch whose NICs a GPU uses: its own switch if that has NICs, else one on its
// socket, else any. If there are several, the index of the GPU's switch decides, so that not all
// switches without NICs use the same one.
int Topology::nic_switch_of(int gpu, const std::vector<std::vector<int>>& nics) const {
  const auto& switches = cluster_.machine.pcie.switches;
  const int own = switch_of_[gpu];
  if (!nics[own].empty()) return own;
  std::vector<int> near, any;
  for (int s = 0; s < static_cast<int>(nics.size()); ++s) {
    if (nics[s].empty()) continue;
    any.push_back(s);
    if (switches[s].numa == switches[own].numa) near.push_back(s);
  }
  const std::vector<int>& choices = near.empty() ? any : near;
  return choices[own * choices.size() / switches.size()];
}

void Topology::add_network() {
  const Network network = cluster_.network();
  if (network.nics == 0) return;
  const double each = network.gbit_per_s_each * 1e9 / 8 * network.efficiency;
  const auto nics = nics_of_switches();
  std::vector<int> out(nics.size(), -1), in(nics.size(), -1);
  for (std::size_t s = 0; s < nics.size(); ++s) {
    if (nics[s].empty()) continue;
    const double all = each * static_cast<double>(nics[s].size());
    const std::string name = numbered("nics of switch", static_cast<int>(s));
    out[s] = add_link(LinkKind::nic, all, name + " -> fabric");
    in[s] = add_link(LinkKind::nic, all, "fabric -> " + name);
  }
  const auto& switches = cluster_.machine.pcie.switches;
  for (int gpu = 0; gpu < cluster_.machine.gpus; ++gpu) {
    const int own = switch_of_[gpu];
    const int target = nic_switch_of(gpu, nics);
    std::vector<int> leave = {gpu_up_[gpu]}, arrive = {in[target]};
    if (target != own || !network.gpudirect) {
      const int here = switches[own].numa, there = switches[target].numa;
      leave.push_back(uplink_[own]);
      if (here != there) leave.push_back(socket_[here][there]);
      leave.push_back(downlink_[target]);
      arrive.push_back(uplink_[target]);
      if (here != there) arrive.push_back(socket_[there][here]);
      arrive.push_back(downlink_[own]);
    }
    leave.push_back(out[target]);
    arrive.push_back(gpu_down_[gpu]);
    leave_.push_back(std::move(leave));
    arrive_.push_back(std::move(arrive));
  }
}

std::vector<int> Topology::pcie_route(int from, int to) const {
  const Pcie& pcie = cluster_.machine.pcie;
  const int a = switch_of_[from], b = switch_of_[to];
  std::vector<int> links = {gpu_up_[from]};
  if (a != b || !pcie.peer_to_peer) {
    const int here = pcie.switches[a].numa, there = pcie.switches[b].numa;
    links.push_back(uplink_[a]);
    if (here != there) links.push_back(socket_[here][there]);
    links.push_back(downlink_[b]);
  }
  links.push_back(gpu_down_[to]);
  return links;
}

void Topology::fill_local_routes() {
  local_.resize(gpus_ * gpus_);
  for (int from = 0; from < gpus_; ++from)
    for (int to = 0; to < gpus_; ++to) {
      if (from == to) continue;
      std::vector<int>& links = local_[from * gpus_ + to];
      if (cluster_.machine.nvlink.kind == NvlinkKind::nvswitch) {
        links = {2 * from, 2 * to + 1};
      } else if (direct_nvlinks(from, to) > 0) {
        links = {nvlink_[from][to]};
      } else {
        links = pcie_route(from, to);
      }
    }
}

int Topology::direct_nvlinks(int from_gpu, int to_gpu) const {
  if (cluster_.machine.nvlink.kind != NvlinkKind::matrix) return 0;
  return cluster_.machine.nvlink.links_between[from_gpu][to_gpu];
}

void Topology::scale_links(LinkKind kind, double factor) {
  for (Link& link : links_)
    if (link.kind == kind) link.bandwidth_bytes_per_s *= factor;
}

void Topology::scale_cards(double factor) {
  scale_links(LinkKind::nic, factor);
  cluster_.fabric.reset();
}

void Topology::append_route(int from_rank, int to_rank, std::vector<int>& links) const {
  const int from_host = cluster_.host_of(from_rank), to_host = cluster_.host_of(to_rank);
  const int from = from_rank - from_host * gpus_, to = to_rank - to_host * gpus_;
  const auto append = [&](const std::vector<int>& part, int host) {
    for (const int link : part) links.push_back(host * links_per_host() + link);
  };
  if (from_host == to_host) return append(local_[from * gpus_ + to], from_host);
  append(leave_[from], from_host);
  append(arrive_[to], to_host);
}

std::vector<int> Topology::route(int from_rank, int to_rank) const {
  std::vector<int> links;
  append_route(from_rank, to_rank, links);
  return links;
}

}  // namespace meshwright::hwprofiles
