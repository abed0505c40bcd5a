// Finds rings and lines of GPUs over direct NVLinks, as NCCL does on the cube mesh of 8 V100, where
// not every pair of GPUs is linked. There all 8 GPUs form 6 rings and the first 4 GPUs form 4, but
// the first 5 form none.
#pragma once

#include <vector>

namespace meshwright::sim {

// [a][b]: number of links between GPUs a and b; symmetric.
using LinkMatrix = std::vector<std::vector<int>>;

// Returns the largest set of rings through all GPUs that share no link. A closed ring is returned
// once in each direction, and each ring starts with GPU 0. Two GPUs form one ring per link. Returns
// an empty list if there is no ring, and for fewer than 2 or more than 8 GPUs.
std::vector<std::vector<int>> nvlink_rings(const LinkMatrix& links);

// Returns a line through all GPUs, from the first GPU that begins one. Returns an empty line if
// there is none, and for more than 8 GPUs.
std::vector<int> nvlink_line(const LinkMatrix& links);

}  // namespace meshwright::sim
