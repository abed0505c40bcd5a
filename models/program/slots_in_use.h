// Finds what is stored in the slots of a stage while its tasks run.
#pragma once

#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright {

// Returns the number of micro-batches of each chunk that are in slots, after each task in which one
// comes in.
std::vector<std::vector<int>> slots_in_use(const Program& program);

// Checks that a slot holds one micro-batch of one of its chunks until the last task that uses it.
// Returns what is wrong, in words, or "" if nothing is.
std::string wrong_slots(const Program& program);

}  // namespace meshwright
