// Writes the forward, backward and weights bodies of a stage's chunks.
#pragma once

namespace meshwright::compiler {

struct StageDraft;

void write_forward(StageDraft& draft, int chunk);
void write_backward(StageDraft& draft, int chunk);
// Writes the nodes that backward bodies defer if the schedule splits backwards: those that lead
// only to gradients of weights on their own virtual stage.
void write_weights(StageDraft& draft, int chunk);

}  // namespace meshwright::compiler
