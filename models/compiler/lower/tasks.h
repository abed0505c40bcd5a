// Bodies in schedule order, which copy of the saved activations each micro-batch uses, and when
// those that wait in host memory come back.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright {

struct StageDraft;

// Of the stage's tasks.
StageOrder order_of(const StageDraft& draft);

// Also counts the windows and host slots that tasks use. After choose_shared_slots().
void write_tasks(StageDraft& draft);

}  // namespace meshwright
