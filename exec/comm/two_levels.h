// All-gather of a group that lies on several hosts with equally many ranks on each: first between
// the hosts, every rank with those at its place on the others, then inside the hosts. So each part
// crosses the network once for every other host, not for every other rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/comm/communicator.h"

namespace meshwright {

// One rank's view of such a group: the members of its host, and those at its place on all hosts.
struct HostGrid {
  int hosts = 1, per_host = 1;
  int host = 0, place = 0;  // of this rank
  std::vector<int> inside, rail;
};

// `ranks`: the group, ascending; host_of: by rank. Nothing where the group has one host, one rank
// on each, different numbers on its hosts, or hosts that do not follow each other.
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

}  // namespace meshwright
