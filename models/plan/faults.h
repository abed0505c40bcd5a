// What is wrong with a cluster: ranks that compute slowly, links that carry less than they should,
// hosts that fail now and then. For rehearsals; nothing is made slow on purpose when a job runs.
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

  // Of one host, failures being independent: that of n hosts is an n-th of it.
  std::optional<double> mean_time_between_failures_s;
  // From a failure to the first step after it: detection, new hosts, start, reading the checkpoint.
  double restart_s = 300;
  // Of one host to the storage. The default is what Llama 3's clusters sustain: 2 TB/s for 2,048
  // hosts (The Llama 3 Herd of Models, 2024, section 3.3.1).
  double checkpoint_bytes_per_s = 1e9;

  bool change_the_step() const { return !slow_ranks.empty() || !degraded_links.empty(); }
  bool any() const { return change_the_step() || mean_time_between_failures_s.has_value(); }
};

}  // namespace meshwright
