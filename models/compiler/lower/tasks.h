// Puts bodies in schedule order, and decides which copy of the saved activations each micro-batch
// uses and when those in host memory come back.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright {

struct StageDraft;

// Returns the order of the stage's tasks.
StageOrder order_of(const StageDraft& draft);

// Writes the tasks, and counts the windows and host slots that they use. Needs
// choose_shared_slots() before.
void write_tasks(StageDraft& draft);

}  // namespace meshwright
