// Writes the bodies before and after the micro-batches. The first one clears sums and rounds
// weights. The last one has reductions, the gradient norm, the optimizer and gathers.
#pragma once

namespace meshwright::compiler {

struct StageDraft;

void write_begin(StageDraft& draft);
void write_end(StageDraft& draft);

}  // namespace meshwright::compiler
