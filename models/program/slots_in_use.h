// What lies in the slots of a stage while its tasks run.
#pragma once

#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright {

// The micro-batches of each chunk that are in slots, after each task in which one comes in.
std::vector<std::vector<int>> slots_in_use(const Program& program);

// A slot holds one micro-batch of one of its chunks, until the last task that uses it. Returns what
// is wrong, in words; empty: nothing.
std::string wrong_slots(const Program& program);

}  // namespace meshwright
