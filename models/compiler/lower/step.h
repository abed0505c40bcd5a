// Writes the bodies around the micro-batches. Sums are set to zero before. Reductions, norm,
// optimizer and gathers follow after.
#pragma once

namespace meshwright {

struct StageDraft;

void write_begin(StageDraft& draft);
void write_end(StageDraft& draft);

}  // namespace meshwright
