// The all-to-all of experts that sends a token once to each host on which it has experts, and
// there once to each rank, as DeepEP and HybridEP do. A plain all-to-all sends it once for each
// expert. The way back is alike: ranks and hosts add up what they return.
//
// A token chooses k of E experts, all equally probable, which H hosts (or P ranks) share equally.
// The expected number of hosts with a chosen expert is D(H) = H (1 - C(E - E/H, k) / C(E, k)). If
// tokens choose among the experts of g of G groups, k are among the g E/G experts of these groups.
// Over the network each rank sends D(H) (H - 1)/H copies of its tokens to ranks at its own position
// in their hosts, and inside a host the D(P) copies go on by NVLink. Both overlap, chunk by chunk.
#pragma once

#include <compare>

#include "models/program/program.h"
#include "sim/collectives/select.h"

namespace meshwright::sim {

// How tokens choose experts: k of E, among the experts of g of G groups. Without experts, an
// exchange is a plain all-to-all.
struct ExpertChoices {
  int experts = 0, per_token = 0;
  int groups = 1, groups_per_token = 1;
  auto operator<=>(const ExpertChoices&) const = default;
};

// Returns the choices by which a deduplicated exchange of tokens is timed, or none for any other
// instruction.
ExpertChoices choices_of(const Instruction& instruction);

// Returns on how many of `holders` a token has experts, in the mean. Each of them holds an equal
// part of the experts, and the parts are consecutive.
double expected_holders(const ExpertChoices& choices, int holders);

// Returns the time of the exchange. `bytes` is what one rank holds with a copy of a token for each
// of its choices, as in collective_time().
Seconds deduplicated_time(const Topology& topology, const ExpertChoices& choices, Bytes bytes,
                          const Groups& concurrent_groups);

}  // namespace meshwright::sim
