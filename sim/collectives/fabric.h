// What a fabric with leaf and spine switches (Cluster::fabric) leaves of the bandwidth of network
// cards.
//
// Groups of one kind run at once, so while they do their traffic is the same all the time: a ring
// sends from each host to the next one, an exchange of all with all from each host to all others
// equally. A host's cards are busy with all of its groups together. What leaves a leaf for others
// shares the way to the spine, max-min fairly; all cards then go as slow as those of the fullest
// leaf, for whom the others wait.
#pragma once

#include <map>
#include <span>
#include <utility>

#include "sim/collectives/select.h"

namespace meshwright {

// Of the cards of how many hosts the traffic is that leaves each leaf (or pod), were they not held
// up. Leaves that nothing leaves are not in it.
using SpineLoads = std::map<int, double>;
SpineLoads spine_loads(const Cluster& cluster, CollectiveKind kind, const Groups& groups);
SpineLoads spine_loads(const Cluster& cluster, std::span<const std::pair<int, int>> pairs);

int hosts_per_leaf(const Cluster& cluster);
// From a leaf to the spine, as SpineLoads: of all of its hosts, divided by the oversubscription.
double spine_capacity(const Cluster& cluster);

// Share of the cards' bandwidth that traffic with these loads reaches, 1 at most.
double share_of_cards(const Cluster& cluster, const SpineLoads& loads);

// The same of one kind of collective; above 1 where switches sum up, as less is sent.
double share_of_cards(const Cluster& cluster, CollectiveKind kind, const Groups& groups);

// Cards that carry so much more or less, on a fabric that does not block.
Topology with_cards(const Topology& topology, double share);

}  // namespace meshwright
