// Tasks of schedules whose micro-batches go through the chunks in groups of `stages`: all of a
// group through the first chunk, then all through the next.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright {

// Returns the k-th forward or backward of a stage, counted over all chunks. Backwards take the
// chunks from the last to the first.
ScheduledTask nth_task(PipelineShape shape, TaskKind kind, int k);

// Returns the number of forwards before a stage's first backward.
int forwards_ahead(PipelineShape shape, int stage);

// Returns whether the bound on active micro-batches is too low. With one group in the backward and
// the next in the forward, a stage has up to 2 * stages micro-batches in flight, and a lower bound
// leaves no room for two groups at once.
bool too_tight(PipelineShape shape);

// Returns the groups, no larger than the bound, one after another: chunk by chunk forward and back.
StageOrder in_rounds(PipelineShape shape, int stage);

}  // namespace meshwright
