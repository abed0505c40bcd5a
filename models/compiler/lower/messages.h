// Messages between virtual stages: each sends activations to the next one and their gradients to
// the previous one. Both ends number the channels of a task's messages in the order of the tensors.
#pragma once

#include "models/compiler/lower/body_builder.h"

namespace meshwright::compiler {

struct StageDraft;

// Writes all receives of a forward or backward body. They are its first instructions.
void receive(StageDraft& draft, BodyBuilder& body);

// Sends the tensor that instruction `producer` of the body has just made. A producer of -1 means
// that no instruction has, because the tensor is a view of another one.
void send(StageDraft& draft, BodyBuilder& body, int tensor, int producer);

}  // namespace meshwright::compiler
