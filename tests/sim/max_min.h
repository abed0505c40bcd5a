// Max-min fair shares of links: all flows grow at the same pace until a link is full; the flows on
// it stop, the others go on. (Bertsekas and Gallager, Data Networks, 6.5.2.)
#pragma once

#include <vector>

namespace meshwright {

// `capacity` of each link; `flows[f]` lists the links that flow f crosses, each once. The rate of
// each flow in the unit of the capacities. A flow that crosses no link gets an infinite rate.
std::vector<double> max_min_rates(const std::vector<double>& capacity,
                                  const std::vector<std::vector<int>>& flows);

}  // namespace meshwright
