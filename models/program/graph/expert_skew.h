// Models how unevenly tokens choose experts, for predictions. Choices follow Zipf's law: the r-th
// most popular expert is chosen in proportion to r^-skew, but by each token at most once. Which
// experts are popular is drawn for each layer.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright::program {

// Returns the experts' shares of all choices, the largest first. Their sum is 1. Each token makes
// `chosen` choices.
std::vector<double> zipf_shares(int experts, int chosen, double skew);

// Returns the choices that fall on the most loaded of `parts` equal, consecutive parts of the
// experts, relative to the mean of the parts (at least 1). The result is a mean over 64 layers,
// whose orders of experts are drawn from `seed`. `experts` must be a multiple of `parts`.
double fullest_part(int experts, int chosen, int parts, double skew, std::uint64_t seed);

}  // namespace meshwright::program
