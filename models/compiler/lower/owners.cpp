#include "models/compiler/lower/owners.h"

namespace meshwright::compiler {

namespace {

// Returns the owner of each size if every owner takes as many consecutive sizes as fit into `limit`
// elements. The first owner holds `held` elements already. Returns an empty list if `owners` owners
// are too few, or if a single size exceeds the limit.
std::vector<int> fill(const std::vector<std::int64_t>& sizes, int owners, std::int64_t held,
                      std::int64_t limit) {
  std::vector<int> owner_of;
  int owner = 0;
  for (const std::int64_t size : sizes) {
    if (held + size > limit) {
      ++owner;
      held = 0;
    }
    if (owner == owners || size > limit) return {};
    held += size;
    owner_of.push_back(owner);
  }
  return owner_of;
}

std::vector<int> share_sizes(const std::vector<std::int64_t>& sizes, int owners,
                             std::int64_t pinned) {
  std::int64_t low = 0, high = pinned;  // `high` suffices, `low` does not
  for (const std::int64_t size : sizes) high += size;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fill(sizes, owners, pinned, middle).empty() ? low : high) = middle;
  }
  return fill(sizes, owners, pinned, high);
}

}  // namespace

std::vector<Owner> share_out(const std::vector<OwnedItem>& items, int rdp, int tensor) {
  std::vector<Owner> owners(items.size());
  for (const bool sliced : {true, false}) {
    std::vector<std::int64_t> sizes;
    std::vector<std::size_t> which;
    std::int64_t pinned = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].by_every_tensor_rank != sliced) continue;
      owners[i] = {0, sliced ? -1 : 0};
      if (items[i].pinned) {
        pinned += items[i].elements;
      } else {
        sizes.push_back(items[i].elements);
        which.push_back(i);
      }
    }
    const std::vector<int> shared = share_sizes(sizes, sliced ? rdp : rdp * tensor, pinned);
    for (std::size_t n = 0; n < which.size(); ++n)
      owners[which[n]] =
          sliced ? Owner{shared[n], -1} : Owner{shared[n] / tensor, shared[n] % tensor};
  }
  return owners;
}

}  // namespace meshwright::compiler
