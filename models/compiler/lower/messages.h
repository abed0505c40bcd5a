// What travels between virtual stages: activations to the next one, their gradients to the one
// before. Both ends count the channels of a task in the order of the tensors.
#pragma once

#include "models/compiler/lower/body_builder.h"

namespace meshwright {

struct StageDraft;

// All that a forward or backward body gets: its first instructions.
void receive(StageDraft& draft, BodyBuilder& body);

// What instruction `producer` of the body has just made (-1: a view of something else).
void send(StageDraft& draft, BodyBuilder& body, int tensor, int producer);

}  // namespace meshwright
