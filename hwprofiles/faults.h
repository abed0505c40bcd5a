// Describes faults of a cluster: ranks that compute slowly, and links with less bandwidth than they
// should have. They exist for simulation only. A real run is never slowed down on purpose.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace meshwright::hwprofiles {

enum class FaultyLink : std::uint8_t { nvlink, pcie, network };
constexpr int faulty_link_count = 3;

struct Faults {
  // All compute of these ranks takes `factor` >= 1 times as long. Exactly one of `rank` and `host`
  // is given.
  struct SlowRanks {
    std::optional<int> rank;
    std::optional<int> host;  // all ranks of this host
    double factor = 1;
  };
  // Links that have only `factor`, in (0, 1], of their bandwidth: all links of this kind of one
  // host, or of every host if `host` is unset. `network` means all network cards of a host
  // together.
  struct DegradedLink {
    FaultyLink link = FaultyLink::network;
    std::optional<int> host;
    double factor = 1;
  };
  std::vector<SlowRanks> slow_ranks;         // if several name one rank, the slowest counts
  std::vector<DegradedLink> degraded_links;  // if several name one link, the slowest counts

  bool any() const { return !slow_ranks.empty() || !degraded_links.empty(); }
};

}  // namespace meshwright::hwprofiles
