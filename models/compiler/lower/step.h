// What surrounds the micro-batches: sums set to zero before; reductions, norm, optimizer and
// gathers after.
#pragma once

namespace meshwright {

struct StageDraft;

void write_begin(StageDraft& draft);
void write_end(StageDraft& draft);

}  // namespace meshwright
