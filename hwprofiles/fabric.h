// Describes a network between hosts that can block: the hosts' cards are connected to leaf
// switches, and a spine between the leaves may have less bandwidth.
#pragma once

namespace meshwright::hwprofiles {

struct Fabric {
  int leaf_ports = 0;  // network cards of a leaf switch or, with `rails`, hosts of a pod
  // Bandwidth from the hosts into a leaf divided by the bandwidth from the leaf to the spine, >= 1.
  double oversubscription = 1;
  // If set, card k of each host is connected to leaf k of its pod, which has `leaf_ports` hosts.
  // Data for a card of another number first moves to another GPU inside the host. If not set, all
  // cards of a host are connected to one leaf.
  bool rails = false;
  // Whether switches add up the all-reduces of hosts. Then each card sends the buffer once instead
  // of nearly twice.
  bool in_network_reduction = false;

  // For a cluster that shares the fabric: the index of its first host in its leaf or pod, and the
  // share of the bandwidth from there to the spine that other clusters leave to it.
  int first_host = 0;
  double spine_share = 1;
};

}  // namespace meshwright::hwprofiles
