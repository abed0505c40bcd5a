// Whole-parameter sharding: every parameter of a stage gets one owner among the ranks that hold it.
#pragma once

#include <cstdint>
#include <vector>

#include "models/program/memory_plan.h"

namespace meshwright {

struct OwnedItem {
  std::int64_t elements = 0;
  bool by_every_tensor_rank = true;  // each holds a slice of its own; else all hold the same
  bool pinned = false;               // goes to the first owner (a tied weight, on both its stages)
};

// Gives consecutive items to consecutive owners such that the most loaded owner has least. In this
// order few and large messages go to each. Items that all tensor ranks hold identically are
// distributed over rdp * tensor owners, the others over rdp.
std::vector<Owner> share_out(const std::vector<OwnedItem>& items, int rdp, int tensor);

}  // namespace meshwright
