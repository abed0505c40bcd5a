// Puts bodies in schedule order. Also decides which slot each micro-batch uses for its saved
// activations, and when offloaded activations are loaded.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

struct StageDraft;

// Returns the order of the stage's tasks.
StageOrder order_of(const StageDraft& draft);

// Writes the tasks, and counts the windows and host slots that they use. Call choose_shared_slots()
// before.
void write_tasks(StageDraft& draft);

}  // namespace meshwright::compiler
