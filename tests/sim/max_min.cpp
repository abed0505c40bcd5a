#include "tests/sim/max_min.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace meshwright {

namespace {

struct LinkState {
  double left = 0;  // capacity not yet given to flows whose rate is fixed
  int growing = 0;  // flows whose rate is not
  std::vector<int> flows;
  double share() const { return std::max(0.0, left) / growing; }
};

}  // namespace

// The share of a link never falls while other links fill up, so an entry of the heap is a lower
// bound: if it still holds when it is taken out, that link is the next to be full.
std::vector<double> max_min_rates(const std::vector<double>& capacity,
                                  const std::vector<std::vector<int>>& flows) {
  std::vector<LinkState> links(capacity.size());
  for (std::size_t link = 0; link < links.size(); ++link) links[link].left = capacity[link];
  for (std::size_t flow = 0; flow < flows.size(); ++flow)
    for (const int link : flows[flow]) {
      LinkState& state = links[static_cast<std::size_t>(link)];
      ++state.growing;
      state.flows.push_back(static_cast<int>(flow));
    }
  using Entry = std::pair<double, std::size_t>;  // share, link
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  for (std::size_t link = 0; link < links.size(); ++link)
    if (links[link].growing > 0) next.emplace(links[link].share(), link);

  constexpr double unknown = std::numeric_limits<double>::infinity();
  std::vector<double> rates(flows.size(), unknown);
  while (!next.empty()) {
    const auto [bound, full] = next.top();
    next.pop();
    if (links[full].growing == 0) continue;
    const double share = links[full].share();
    if (share > bound * (1 + 1e-12)) {
      next.emplace(share, full);
      continue;
    }
    for (const int flow : links[full].flows) {
      double& rate = rates[static_cast<std::size_t>(flow)];
      if (rate != unknown) continue;
      rate = share;
      for (const int link : flows[static_cast<std::size_t>(flow)]) {
        links[static_cast<std::size_t>(link)].left -= share;
        --links[static_cast<std::size_t>(link)].growing;
      }
    }
  }
  return rates;
}

}  // namespace meshwright
