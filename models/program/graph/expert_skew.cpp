#include "models/program/graph/expert_skew.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace meshwright::program {

namespace {

constexpr int layers_drawn = 64;  // enough for a mean that differs little from that of all layers

}  // namespace

std::vector<double> zipf_shares(int experts, int chosen, double skew) {
  std::vector<double> shares;
  for (int rank = 1; rank <= experts; ++rank) shares.push_back(std::pow(rank, -skew));
  const double most = 1.0 / chosen;
  double left = 1;  // share of choices that is left for experts that not every token chooses
  for (std::size_t first = 0; first < shares.size(); ++first) {
    const double sum =
        std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(first), shares.end(), 0.0);
    if (sum == 0 || shares[first] * left <= most * sum) {
      for (std::size_t i = first; i < shares.size(); ++i)
        shares[i] =
            sum > 0 ? shares[i] * left / sum : left / static_cast<double>(shares.size() - first);
      break;
    }
    shares[first] = most;
    left -= most;
  }
  return shares;
}

double fullest_part(int experts, int chosen, int parts, double skew, std::uint64_t seed) {
  std::vector<double> shares = zipf_shares(experts, chosen, skew);
  const int own = experts / parts;
  std::mt19937_64 random(seed);
  double sum = 0;
  for (int layer = 0; layer < layers_drawn; ++layer) {
    for (std::size_t left = shares.size(); left > 1; --left)
      std::swap(shares[left - 1], shares[random() % left]);
    double fullest = 0;
    for (int part = 0; part < parts; ++part) {
      const auto begin = shares.begin() + std::ptrdiff_t{part} * own;
      fullest = std::max(fullest, std::accumulate(begin, begin + own, 0.0));
    }
    sum += fullest * parts;
  }
  return sum / layers_drawn;
}

}  // namespace meshwright::program
