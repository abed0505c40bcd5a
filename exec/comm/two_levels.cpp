#include "exec/comm/two_levels.h"

#include <algorithm>
#include <cstring>

namespace meshwright::exec {

std::optional<HostGrid> host_grid(std::span<const int> ranks, std::span<const int> host_of,
                                  int own) {
  const auto host = [&](std::size_t member) { return host_of[ranks[member]]; };
  std::size_t per_host = 1;
  while (per_host < ranks.size() && host(per_host) == host(0)) ++per_host;
  const std::size_t hosts = ranks.size() / per_host;
  if (per_host == 1 || hosts < 2 || hosts * per_host != ranks.size()) return std::nullopt;
  HostGrid grid;
  grid.hosts = static_cast<int>(hosts);
  grid.per_host = static_cast<int>(per_host);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool begins_host = i % per_host == 0;
    if (i > 0 && begins_host == (host(i) == host(i - 1))) return std::nullopt;
    if (ranks[i] != own) continue;
    grid.host = static_cast<int>(i / per_host);
    grid.place = static_cast<int>(i % per_host);
  }
  for (int place = 0; place < grid.per_host; ++place)
    grid.inside.push_back(ranks[grid.host * grid.per_host + place]);
  for (int each = 0; each < grid.hosts; ++each)
    grid.rail.push_back(ranks[each * grid.per_host + grid.place]);
  return grid;
}

TwoLevels::TwoLevels(const HostGrid& grid, std::unique_ptr<Communicator> inside,
                     std::unique_ptr<Communicator> rail)
    : grid_(grid), inside_(std::move(inside)), rail_(std::move(rail)) {}

// Exchanges parts between the ranks at this position of all hosts. Each part is received at its
// place in `all`.
void TwoLevels::gather_between_hosts(char* all, std::int64_t bytes) {
  constexpr std::int64_t longest = 1 << 28;  // bytes of a message
  const auto part = [&](int host) { return all + (host * grid_.per_host + grid_.place) * bytes; };
  requests_.clear();
  for (int host = 0; host < grid_.hosts; ++host) {
    if (host == grid_.host) continue;
    for (std::int64_t done = 0; done < bytes; done += longest) {
      const std::int64_t piece = std::min(longest, bytes - done);
      requests_.push_back(rail_->irecv(part(host) + done, piece, host, 0));
      requests_.push_back(rail_->isend(part(grid_.host) + done, piece, host, 0));
    }
  }
  for (const Request request : requests_) rail_->wait(request);
}

void TwoLevels::all_gather(const void* own, void* all, std::int64_t bytes) {
  char* to = static_cast<char*>(all);
  char* place = to + (grid_.host * grid_.per_host + grid_.place) * bytes;
  if (place != own) std::memmove(place, own, bytes);
  gather_between_hosts(to, bytes);
  for (int host = 0; host < grid_.hosts; ++host) {
    char* of_host = to + host * grid_.per_host * bytes;
    inside_->all_gather(of_host + grid_.place * bytes, of_host, bytes);
  }
}

}  // namespace meshwright::exec
