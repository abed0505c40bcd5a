// What is wrong with a cluster: ranks that compute slowly, links that carry less than they should.
// For rehearsals; nothing is made slow on purpose when a job runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

enum class FaultyLink : std::uint8_t { nvlink, pcie, network };
constexpr int faulty_link_count = 3;
const std::vector<std::string>& faulty_link_names();

struct Faults {
  // Everything that these ranks compute takes `factor` >= 1 times as long. One of the two is given.
  struct SlowRanks {
    std::optional<int> rank;
    std::optional<int> host;  // all ranks of it
    double factor = 1;
  };
  // Of one host, or of every host: its links of this kind carry `factor`, in (0, 1], of their bytes
  // per second. `network`: all network cards of the host together.
  struct DegradedLink {
    FaultyLink link = FaultyLink::network;
    std::optional<int> host;
    double factor = 1;
  };
  std::vector<SlowRanks> slow_ranks;         // of several for one rank the slowest counts
  std::vector<DegradedLink> degraded_links;  // of several for one link the slowest counts

  bool any() const { return !slow_ranks.empty() || !degraded_links.empty(); }
};

}  // namespace meshwright
