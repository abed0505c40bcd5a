// Finds which micro-batches are in the slots of a stage while its tasks run.
#pragma once

#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright::program {

// Returns how many micro-batches of each chunk are in slots: one list, indexed by chunk, for each
// task that brings one in (a forward task).
std::vector<std::vector<int>> slots_in_use(const Program& program);

// Checks that a slot holds one micro-batch of one chunk until the last task that uses it. Returns
// what is wrong, in words, or "" if nothing is.
std::string wrong_slots(const Program& program);

}  // namespace meshwright::program
