// Offloading: checkpointed activations wait in host memory from the forward to the backward task.
//
// `activations` (tasks): what a micro-batch keeps lies in one of a few windows of device memory; it
// goes out as it is made, and the window is free two pipeline tasks later. A task of its own brings
// it back into a window `offload_horizon` pipeline tasks before the backward one.
// `layers`: the inputs of a stage's layers take turns in a ring of `offload_horizon` places, in the
// forward and in the backward body.
#pragma once

#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/plan/plan.h"

namespace meshwright {

struct StageDraft;

struct Offloaded {  // an activation
  int tensor = -1;
  int device = -1, host = -1;  // buffers
  int copy_out = -1,
      copy_in = -1;      // instructions: of the forward body; of the load or the backward body
  int last_reader = -1;  // node of the backward body
};

struct Offloads {
  std::vector<std::vector<Offloaded>> of_chunk;  // in the order in which they are made
  std::vector<int> ring;                         // buffers that layers' inputs use in turn
};

bool offloads_tasks(const Plan& plan);
bool offloads_layers(const Plan& plan);

// These are steps of lowering. They do nothing if nothing is offloaded.
void choose_offloaded(StageDraft& draft);
void write_load(StageDraft& draft, int chunk);
void wait_for_offloaded(StageDraft& draft);

// These belong to the forward body. A null pointer means that the tensor stays on the device.
const Offloaded* find_offloaded(const StageDraft& draft, int tensor, int chunk);
void copy_out_if_offloaded(StageDraft& draft, BodyBuilder& body, int tensor);

// These belong to the backward body, for layers. The last layers' inputs come back when the body
// begins. Each of the others comes back when the place that it shares has been read for the last
// time.
void load_last_layers(StageDraft& draft, BodyBuilder& body);
void load_layer_after(StageDraft& draft, BodyBuilder& body, int node);

}  // namespace meshwright
