// How unevenly tokens choose experts, for predictions. Choices follow Zipf's law: of the experts in
// the order of their popularity, the r-th is chosen in proportion to r^-skew, but by each token at
// most once. Which experts are popular is drawn for each layer.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright {

// Shares of all choices, the largest first; their sum is 1. Each token makes `chosen` of them.
std::vector<double> zipf_shares(int experts, int chosen, double skew);

// Of `parts` equal parts of the experts, one after the other, the choices of the fullest over their
// mean: the mean over layers, whose experts are drawn from `seed`. `experts` is a multiple of
// `parts`.
double fullest_part(int experts, int chosen, int parts, double skew, std::uint64_t seed);

}  // namespace meshwright
