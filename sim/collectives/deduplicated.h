// Times the all-to-all of experts that sends a token once to each host on which it has chosen
// experts, and inside the host once to each rank that has them, as DeepEP and HybridEP do. A plain
// all-to-all sends a token once for each chosen expert. On the way back, ranks and hosts add up
// what they return, so the bytes are the same in both directions.
//
// A token chooses k of E experts, all equally probable, which H hosts (or P ranks) share equally.
// The expected number of hosts with a chosen expert is D(H) = H (1 - C(E - E/H, k) / C(E, k)). If
// tokens choose among the experts of g of G groups, the k experts are among the g E/G experts of
// these groups. Over the network each rank sends D(H) (H - 1)/H copies of its tokens to ranks at
// its own position in their hosts, and inside a host the D(P) copies go on by NVLink. The two
// levels overlap, so the slower one counts.
#pragma once

#include <compare>

#include "models/program/program.h"
#include "sim/collectives/select.h"

namespace meshwright::sim {

// How tokens choose experts: k of E, among the experts of g of G groups. With `experts` 0 there is
// no choice, and an all-to-all is a plain one.
struct ExpertChoices {
  int experts = 0, per_token = 0;
  int groups = 1, groups_per_token = 1;
  auto operator<=>(const ExpertChoices&) const = default;
};

// Returns the choices by which a deduplicated all-to-all of tokens is timed, or ExpertChoices{} for
// any other instruction.
ExpertChoices choices_of(const Instruction& instruction);

// Returns the expected number of `holders` (ranks or hosts) on which a token has chosen experts.
// Each holder has an equal number of consecutive experts.
double expected_holders(const ExpertChoices& choices, int holders);

// Returns the time of the all-to-all. `bytes` is what one rank holds with a copy of a token for
// each of its chosen experts, as in collective_time().
Seconds deduplicated_time(const Topology& topology, const ExpertChoices& choices, Bytes bytes,
                          const Groups& concurrent_groups);

}  // namespace meshwright::sim
