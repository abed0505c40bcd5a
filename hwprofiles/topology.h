// The devices of a cluster and the directed links between them. Every host has the same links, so a
// link's id follows from its host by a formula: id = host * links_per_host + local id, and nothing
// is stored per host. Links inside a host: NVLink (one per linked pair and direction, or one up and
// one down per GPU with an NVSwitch), PCIe (GPU <-> switch, switch <-> socket), sockets, and NICs
// (one out, one in each). The network between the hosts is a fabric that never blocks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright {

enum class LinkKind : std::uint8_t { nvlink, pcie, uplink, socket, nic, shared_memory };

struct Link {
  LinkKind kind = LinkKind::nvlink;
  double bandwidth_bytes_per_s = 0;  // achieved, one direction
  std::string name;                  // "gpu0 -> gpu3", for reports
};

class Topology {
 public:
  explicit Topology(Cluster cluster);

  const Cluster& cluster() const { return cluster_; }
  int links_per_host() const { return static_cast<int>(links_.size()); }
  const Link& link(int id) const { return links_[static_cast<std::size_t>(id % links_per_host())]; }
  int host_of_link(int id) const { return id / links_per_host(); }
  // The links of the host, as of host 0; `slowed` in tests and fault settings changes them.
  std::vector<Link>& host_links() { return links_; }

  // The links that bytes cross from one rank to another, in order; empty when they are the same.
  // Appended to `links` so that a caller can reuse its memory.
  void append_route(int from_rank, int to_rank, std::vector<int>& links) const;
  std::vector<int> route(int from_rank, int to_rank) const;

  // The NIC that a rank uses for `rail` of its transfers; ranks take the nearest ones in turn.
  int nics_per_host() const { return nics_; }
  bool linked_by_nvlink(int from_rank, int to_rank) const;

 private:
  struct Paths;  // what build_* fill in
  int add_link(LinkKind kind, double bandwidth, std::string name);
  void add_nvlink();
  void add_pcie();
  void add_network();
  void fill_routes();
  std::span<const int> local_route(int from_gpu, int to_gpu) const;

  Cluster cluster_;
  int nics_ = 0;
  std::vector<Link> links_;
  std::vector<std::vector<int>> nvlink_;  // [from][to] -> local link, -1 without one
  std::vector<int> switch_of_;            // of each GPU
  std::vector<int> gpu_up_, gpu_down_;    // PCIe links of each GPU, from and to it
  std::vector<int> uplink_, downlink_;    // of each PCIe switch
  std::vector<std::vector<int>> socket_;  // [from][to] -> local link
  std::vector<int> nic_out_, nic_in_;
  std::vector<std::vector<int>> local_routes_;  // [from * gpus + to]
  std::vector<std::vector<int>> out_routes_;    // of each GPU: to the fabric
  std::vector<std::vector<int>> in_routes_;     // of each GPU: from the fabric
};

inline Topology build_topology(const Cluster& cluster) { return Topology(cluster); }

}  // namespace meshwright
