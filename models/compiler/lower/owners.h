// Sharding of whole parameters: every parameter of a stage gets one owner among the ranks that hold
// it. The owner of a parameter that a tensor group splits is the same replica in all its tensor
// ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "models/program/memory_plan.h"

namespace meshwright::compiler {

struct OwnedItem {
  std::int64_t elements = 0;
  bool by_every_tensor_rank = true;  // each holds another slice; false: all hold the same
  bool pinned = false;               // goes to the first owner (tied weights)
};

// Assigns consecutive items to consecutive owners such that the most loaded owner has as few
// elements as possible. Consecutive items make few and large messages to each owner. Items that all
// tensor ranks hold identically are distributed over rdp * tensor owners. The others are
// distributed by themselves, over rdp owners.
std::vector<Owner> share_out(const std::vector<OwnedItem>& items, int rdp, int tensor);

}  // namespace meshwright::compiler
