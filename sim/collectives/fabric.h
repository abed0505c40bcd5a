// Models how much of the bandwidth of network cards a fabric with leaf and spine switches
// (Cluster::fabric) sustains. Each `cluster` must have a fabric.
//
// Groups of one kind run at the same time, so their traffic is constant while they do. A ring sends
// from each host to the next one, an all-to-all from each host equally to all others. All groups of
// a host share its cards. Traffic that leaves a leaf shares the link to the spine. All cards run as
// slowly as those of the most loaded leaf, because the others wait for them.
#pragma once

#include <map>
#include <span>
#include <utility>

#include "sim/collectives/select.h"

namespace meshwright::sim {

// Maps each leaf switch (with rails, each pod of leaves) to the traffic that would leave it if
// nothing held the traffic up, in units of the bandwidth of all cards of one host. A leaf that no
// traffic leaves has no entry. The traffic is that of concurrent groups, or of messages between
// pairs (from, to) of ranks.
using SpineLoads = std::map<int, double>;
SpineLoads spine_loads(const Cluster& cluster, CollectiveKind kind, const Groups& groups);
SpineLoads spine_loads(const Cluster& cluster, std::span<const std::pair<int, int>> pairs);

int hosts_per_leaf(const Cluster& cluster);
// Returns the capacity from a leaf (with rails, a pod) to the spine, in the unit of SpineLoads: the
// number of hosts that a leaf holds, divided by the oversubscription and multiplied by
// `spine_share`.
double spine_capacity(const Cluster& cluster);

// Returns the share of the cards' bandwidth that traffic with these loads reaches, at most 1.
double share_of_cards(const Cluster& cluster, const SpineLoads& loads);

// Returns the share of the cards' bandwidth that one kind of collective reaches. It may exceed 1 if
// the switches add up all-reduces, because less is sent then.
double share_of_cards(const Cluster& cluster, CollectiveKind kind, const Groups& groups);

// Returns a topology without a fabric, on which the bandwidth of the network cards is multiplied by
// `share` instead.
Topology with_cards(const Topology& topology, double share);

}  // namespace meshwright::sim
