// The network between the hosts where it can block: leaf switches that the hosts' cards go to, and
// a spine between them that carries less.
#pragma once

namespace meshwright {

struct Fabric {
  int leaf_ports = 0;  // network cards that go to one leaf switch
  double oversubscription =
      1;  // bandwidth from hosts into a leaf ÷ that from it to the spine, >= 1
  // Card k of each host goes to leaf k of its pod, which has `leaf_ports` hosts; what goes to a
  // card of another number changes GPUs inside the host first. Otherwise all cards of a host go to
  // one leaf.
  bool rails = false;
  // Switches sum up what hosts all-reduce: each card sends the buffer once, not nearly twice.
  bool in_network_reduction = false;

  // Of a cluster that shares the fabric: the place of its first host in its leaf or pod, and what
  // others leave it of the way from there to the spine.
  int first_host = 0;
  double spine_share = 1;
};

}  // namespace meshwright
