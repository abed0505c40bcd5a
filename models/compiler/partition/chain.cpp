// The exact min-max partition of a chain, by dynamic programming over prefixes. Among the
// partitions of least maximum, it takes the one with the least sum of squares, so that no stage is
// lopsided without need. Among those, it takes the one with the longer parts last, because the
// first stages of a pipeline hold the most micro-batches.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "models/compiler/partition/partition.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class ChainCut {
 public:
  ChainCut(std::span<const double> cost, int parts)
      : items_(cost.size()), parts_(parts), sum_(items_ + 1) {
    for (std::size_t i = 0; i < items_; ++i) {
      MESHWRIGHT_CHECK(std::isfinite(cost[i]) && cost[i] >= 0, "costs are finite and not negative");
      sum_[i + 1] = sum_[i] + cost[i];
    }
  }

  std::vector<int> run() {
    // The limit has a margin, so that rounding of the prefix sums does not make equal maxima
    // different.
    const double limit = least_maximum() + 1e-12 * sum_.back();
    return balanced(limit);
  }

 private:
  double between(std::size_t first, std::size_t end) const { return sum_[end] - sum_[first]; }

  // Returns the least possible maximum. best[i] is that of the first i items in k parts. If the
  // last part begins at j, best[j] does not fall as j rises, and the part's sum does not rise, so
  // the least maximum is where the two cross.
  double least_maximum() const {
    std::vector<double> best = sum_;  // one part
    best[0] = infinity;               // no part may be empty
    for (std::size_t k = 2; k <= parts_; ++k) {
      std::vector<double> next(items_ + 1, infinity);
      for (std::size_t i = k; i <= items_; ++i) {
        std::size_t low = k - 1, high = i - 1;  // the first j with best[j] >= sum of [j, i)
        while (low < high) {
          const std::size_t middle = (low + high) / 2;
          if (best[middle] >= between(middle, i))
            high = middle;
          else
            low = middle + 1;
        }
        next[i] = std::max(best[low], between(low, i));
        if (low > k - 1) next[i] = std::min(next[i], between(low - 1, i));
      }
      best = std::move(next);
    }
    return best[items_];
  }

  std::vector<int> balanced(double limit) const {
    std::vector<double> squares(items_ + 1, infinity);
    squares[0] = 0;
    std::vector<std::vector<std::size_t>> begin;  // begin[k][i]: first item of part k of i items
    for (std::size_t k = 1; k <= parts_; ++k) {
      std::vector<double> next(items_ + 1, infinity);
      begin.emplace_back(items_ + 1, 0);
      for (std::size_t i = k; i <= items_; ++i)
        for (std::size_t j = i; j-- > k - 1 && between(j, i) <= limit;) {
          const double total = squares[j] + between(j, i) * between(j, i);
          // With <=, the smallest of equal j is taken, which makes the last part longest.
          if (total <= next[i] * (1 + 1e-12)) {
            next[i] = std::min(next[i], total);
            begin.back()[i] = j;
          }
        }
      squares = std::move(next);
    }
    std::vector<int> part(items_);
    std::size_t end = items_;
    for (std::size_t k = parts_; k-- > 0;) {
      const std::size_t first = begin[k][end];
      std::fill(part.begin() + static_cast<std::ptrdiff_t>(first),
                part.begin() + static_cast<std::ptrdiff_t>(end), static_cast<int>(k));
      end = first;
    }
    return part;
  }

  std::size_t items_, parts_;
  std::vector<double> sum_;  // sum_[i]: sum of the first i costs
};

}  // namespace

std::vector<int> cut_chain(std::span<const double> cost, int parts) {
  MESHWRIGHT_CHECK(parts >= 1, "at least one part");
  if (std::ssize(cost) < parts)
    throw InputError("a chain of " + std::to_string(cost.size()) + " items cannot be cut into " +
                     std::to_string(parts) + " parts; use at most " + std::to_string(cost.size()));
  return ChainCut(cost, parts).run();
}

}  // namespace meshwright::compiler
