#include "sim/collectives/deduplicated.h"

#include <algorithm>
#include <map>

namespace meshwright::sim {

namespace {

// Returns the probability that none of `chosen` distinct things out of `all` is one of `some`.
double none_of(double some, double all, int chosen) {
  double probability = 1;
  for (int i = 0; i < chosen; ++i) probability *= std::max(0.0, all - some - i) / (all - i);
  return probability;
}

// Returns the probability that a token has no expert on a holder of `own` of the experts.
double misses(const ExpertChoices& choices, double own) {
  const double experts = choices.experts;
  if (choices.groups == 1 || choices.groups_per_token == choices.groups)
    return none_of(own, experts, choices.per_token);
  const double of_group = experts / choices.groups;
  const double eligible = of_group * choices.groups_per_token;
  // The experts of a holder with at most one group are all eligible, or none of them is.
  if (own <= of_group) {
    const double share = double(choices.groups_per_token) / choices.groups;
    return 1 - share + share * none_of(own, eligible, choices.per_token);
  }
  // The token chooses `both` of the holder's groups with a hypergeometric probability.
  const int held = static_cast<int>(own / of_group), chosen = choices.groups_per_token;
  double probability = 0;
  for (int both = 0; both <= std::min(held, chosen); ++both) {
    double ways = 1;  // C(held, both) C(groups - held, chosen - both) / C(groups, chosen)
    for (int i = 0; i < both; ++i) ways *= double(held - i) / (both - i);
    const int others = choices.groups - held, rest = chosen - both;
    if (rest > others) continue;
    for (int i = 0; i < rest; ++i) ways *= double(others - i) / (rest - i);
    for (int i = 0; i < chosen; ++i) ways *= double(chosen - i) / (choices.groups - i);
    probability += ways * none_of(both * of_group, eligible, choices.per_token);
  }
  return probability;
}

// The groups of the two levels: `across` holds ranks at the same position in their hosts, and
// `inside` the ranks of each host.
struct Levels {
  Groups across, inside;
};

// Splits each group into its ranks on each host, and into the first ranks on all hosts, the second
// ones, and so on. Hosts with fewer ranks of a group are left out of the positions that they lack.
Levels levels_of(const Topology& topology, const Groups& groups) {
  Levels levels;
  for (const std::vector<int>& group : groups) {
    std::map<int, std::vector<int>> hosts;
    for (const int rank : group) hosts[topology.cluster().host_of(rank)].push_back(rank);
    Groups columns;
    for (const auto& [host, ranks] : hosts) {
      if (columns.size() < ranks.size()) columns.resize(ranks.size());
      for (std::size_t i = 0; i < ranks.size(); ++i) columns[i].push_back(ranks[i]);
      levels.inside.push_back(ranks);
    }
    std::ranges::move(columns, std::back_inserter(levels.across));
  }
  return levels;
}

int largest(const Groups& groups) {
  std::size_t most = 1;
  for (const std::vector<int>& group : groups) most = std::max(most, group.size());
  return static_cast<int>(most);
}

}  // namespace

ExpertChoices choices_of(const Instruction& instruction) {
  const Attributes& a = instruction.attributes;
  const bool is_exchange = instruction.op == Op::expert_exchange && a.sends_once &&
                           instruction.inputs[0].type.dtype != Dtype::i32;
  if (!is_exchange) return {};
  return {a.experts, a.experts_per_token, a.expert_groups, a.groups_per_token};
}

double expected_holders(const ExpertChoices& choices, int holders) {
  return holders * (1 - misses(choices, double(choices.experts) / holders));
}

Seconds deduplicated_time(const Topology& topology, const ExpertChoices& choices, Bytes bytes,
                          const Groups& concurrent_groups) {
  const Levels levels = levels_of(topology, concurrent_groups);
  const Bytes tokens = bytes / double(choices.per_token);
  const int hosts = largest(levels.across), ranks = largest(concurrent_groups);
  const Seconds across = collective_time(topology, CollectiveKind::all_to_all,
                                         tokens * expected_holders(choices, hosts), levels.across);
  const Seconds inside = collective_time(topology, CollectiveKind::all_to_all,
                                         tokens * expected_holders(choices, ranks), levels.inside);
  return std::max(across, inside);
}

}  // namespace meshwright::sim
