// Finds out which micro-batches are in the slots of a stage (memory_plan.h) while its tasks run.
#pragma once

#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright::program {

// Returns how many micro-batches of each chunk are in slots, directly after each forward task has
// brought one in: one list, indexed by chunk, for each such task.
std::vector<std::vector<int>> slots_in_use(const Program& program);

// Checks that a slot holds one micro-batch of one chunk until the last task that uses the slot for
// it. Returns what is wrong, in words, or "" if nothing is.
std::string wrong_slots(const Program& program);

}  // namespace meshwright::program
