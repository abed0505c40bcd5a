// Describes the devices of a cluster and the directed links between them. Every host has the same
// links, so a link's id follows from its host by a formula: id = host * links_per_host + local id,
// and nothing is stored per host. A GPU host has links for NVLink (one per linked pair and
// direction, or one up and one down per GPU with an NVSwitch), PCIe (GPU <-> switch, switch <->
// socket), sockets, and NICs (one out and one in for all cards of a PCIe switch). A CPU host has
// links for the copies of each rank, for its memory, and for all its NICs together. The network
// between the hosts has no links here. If it can block (Cluster::fabric), sim/collectives adds its
// limits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::hwprofiles {

enum class LinkKind : std::uint8_t { nvlink, pcie, uplink, socket, nic, shared_memory };
std::string_view name_of(LinkKind kind);  // the usual word: "NVLink", "PCIe", "network"

struct Link {
  LinkKind kind = LinkKind::nvlink;
  double bandwidth_bytes_per_s = 0;  // achieved, one direction
  std::string name;                  // "gpu0 -> gpu3", for reports
};

class Topology {
 public:
  explicit Topology(Cluster cluster);  // throws InputError if the cluster is impossible

  const Cluster& cluster() const { return cluster_; }
  int links_per_host() const { return static_cast<int>(links_.size()); }
  int local_link(int id) const { return id % links_per_host(); }
  int host_of_link(int id) const { return id / links_per_host(); }
  const Link& link(int id) const { return links_[local_link(id)]; }
  void scale_links(LinkKind kind, double factor);  // multiplies their bandwidth, on all hosts
  // Multiplies the bandwidth of all network cards by `factor`, and removes Cluster::fabric, so that
  // the network between the hosts never blocks.
  void scale_cards(double factor);

  // Append or return the ids of the links that bytes cross from one rank to another, in order.
  // There are none if both are the same rank.
  void append_route(int from_rank, int to_rank, std::vector<int>& links) const;
  std::vector<int> route(int from_rank, int to_rank) const;

  // Returns the number of parallel NVLinks that connect one GPU of a host directly to another. It
  // is 0 on a machine with an NVSwitch, or without NVLink.
  int direct_nvlinks(int from_gpu, int to_gpu) const;

 private:
  int add_link(LinkKind kind, double bandwidth, std::string name);
  void add_shared_memory();
  void add_nvlink();
  void add_pcie();
  void add_network();
  std::vector<std::vector<int>> nics_of_switches() const;
  int nic_switch_of(int gpu, const std::vector<std::vector<int>>& nics) const;
  void fill_local_routes();
  std::vector<int> pcie_route(int from, int to) const;

  Cluster cluster_;
  int gpus_ = 0;  // GPUs of a host that have a rank
  std::vector<Link> links_;
  std::vector<std::vector<int>> nvlink_;          // matrix: [from][to] -> link, -1 without one
  std::vector<int> switch_of_;                    // of each GPU
  std::vector<int> gpu_up_, gpu_down_;            // PCIe links of each GPU, from it and to it
  std::vector<int> uplink_, downlink_;            // of each PCIe switch
  std::vector<std::vector<int>> socket_;          // [from][to] -> link
  std::vector<std::vector<int>> local_;           // [from * gpus + to] -> links
  std::vector<std::vector<int>> leave_, arrive_;  // of each GPU: links to and from the fabric
};

inline Topology build_topology(const Cluster& cluster) { return Topology(cluster); }

}  // namespace meshwright::hwprofiles
