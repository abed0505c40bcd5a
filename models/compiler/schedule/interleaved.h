// The tasks of schedules whose micro-batches go through the chunks in groups of `stages`: all
// micro-batches of a group through the first chunk, then all through the next.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

// Returns the k-th forward or backward of a stage, counted over all chunks. Backwards take the
// chunks from the last to the first.
ScheduledTask nth_task(PipelineShape shape, TaskKind kind, int k);

// Returns the number of forwards in a stage's warm-up. After it, a forward comes before each
// backward until no forwards are left.
int forwards_ahead(PipelineShape shape, int stage);

// Returns whether there is a bound on active micro-batches that is too low. With one group in the
// backward and the next in the forward, a stage has up to 2 * stages micro-batches in flight, and a
// lower bound leaves no room for two groups at once.
bool too_tight(PipelineShape shape);

// Returns a stage's tasks if the bound on active micro-batches is too low: rounds of at most
// min(bound, `stages`) micro-batches. Each round goes forward through all chunks, chunk by chunk,
// and then back, before the next round begins.
StageOrder in_rounds(PipelineShape shape, int stage);

}  // namespace meshwright::compiler
