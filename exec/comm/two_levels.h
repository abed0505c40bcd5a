// All-gather of a group on several hosts, with equally many ranks on each. The parts are gathered
// first between the hosts, every rank with the ranks at its position on the others, and then inside
// each host. So a part crosses the network once for every other host instead of once for every rank
// there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/comm/communicator.h"

namespace meshwright::exec {

// One rank's view of such a group, in world ranks: `inside` holds the members on its host, and
// `rail` the members at its position on every host.
struct HostGrid {
  int hosts = 1, per_host = 1;
  int host = 0, place = 0;  // this rank's
  std::vector<int> inside, rail;
};

// Returns the grid of the group `ranks` (ascending world ranks) as rank `own` sees it. `host_of`
// holds the host of each world rank. Consecutive members on one host must form two or more blocks
// of one length above 1. Otherwise returns none.
std::optional<HostGrid> host_grid(std::span<const int> ranks, std::span<const int> host_of,
                                  int own);

class TwoLevels {
 public:
  TwoLevels(const HostGrid& grid, std::unique_ptr<Communicator> inside,
            std::unique_ptr<Communicator> rail);
  void all_gather(const void* own, void* all, std::int64_t bytes_per_rank);

 private:
  void gather_between_hosts(char* all, std::int64_t bytes);

  HostGrid grid_;
  std::unique_ptr<Communicator> inside_, rail_;
  std::vector<Request> requests_;
};

}  // namespace meshwright::exec
