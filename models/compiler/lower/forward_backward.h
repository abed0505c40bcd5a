// The forward, backward and weights bodies of a stage's chunks.
#pragma once

namespace meshwright {

struct StageDraft;

void write_forward(StageDraft& draft, int chunk);
void write_backward(StageDraft& draft, int chunk);
// Writes what backward bodies defer if the schedule splits them.
void write_weights(StageDraft& draft, int chunk);

}  // namespace meshwright
