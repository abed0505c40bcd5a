// Rings and lines of GPUs over direct NVLinks, as NCCL finds them on the V100 cube mesh, where not
// every pair is linked: all 8 GPUs make 6 rings, the first 4 make 4, the first 5 none.
#pragma once

#include <vector>

namespace meshwright {

using LinkMatrix = std::vector<std::vector<int>>;  // links between each pair, symmetric

// The largest set of rings through all GPUs that share no link, each direction of a closed ring
// counting as one; each starts with GPU 0. Two GPUs make one ring per link. Empty when there is
// none.
std::vector<std::vector<int>> nvlink_rings(const LinkMatrix& links);

// A line through all GPUs, from GPU 0 where possible; empty when there is none.
std::vector<int> nvlink_line(const LinkMatrix& links);

}  // namespace meshwright
