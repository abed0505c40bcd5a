// Bodies in schedule order, which copy of the saved activations each micro-batch uses, and when
// those that wait in host memory come back.
#pragma once

namespace meshwright {

struct StageDraft;

// Also counts the slots, windows and host slots that tasks use.
void write_tasks(StageDraft& draft);

}  // namespace meshwright
