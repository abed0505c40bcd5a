// Offloading: saved activations wait in host memory from the forward to the backward task.
//
// `activations` offloads checkpoints: tensors that recomputation reads. The checkpoints of a
// micro-batch are in one of a few windows of device memory. They are copied out as they are made,
// and the window is free two pipeline tasks later. A separate task loads them into a window
// `offload_horizon` pipeline tasks before the backward task. Checkpoints that would have to come
// back too soon stay on the device.
//
// `layers` offloads inside a task. The inputs of a stage's layers share a ring of
// `offload_horizon` buffers, at least two, in the forward and in the backward body. Without
// recomputation, the larger tensors that the first blocks save share a ring instead.
#pragma once

#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

struct StageDraft;

struct Offloaded {  // an activation
  int tensor = -1;
  int device = -1, host = -1;  // buffers: on the device a window or a slot of the ring
  // Instructions: copy_out in the forward body, copy_in in the load body or, for `layers`, in the
  // backward body.
  int copy_out = -1, copy_in = -1;
  int last_reader = -1;  // the last node of the backward body that reads it
};

struct Offloads {
  std::vector<std::vector<Offloaded>> of_chunk;  // in the order in which they are made
  // The ring's buffers, which `layers` use round-robin.
  std::vector<int> ring;
};

bool offloads_tasks(const Plan& plan);
bool offloads_layers(const Plan& plan);

// These are steps of lowering. choose_offloaded() and wait_for_offloaded() do nothing if no
// activations are offloaded. write_load() is only for offloads_tasks().
void choose_offloaded(StageDraft& draft);
void write_load(StageDraft& draft, int chunk);
void wait_for_offloaded(StageDraft& draft);

// The writers of the forward body call these. find_offloaded() returns null for a tensor that stays
// on the device.
const Offloaded* find_offloaded(const StageDraft& draft, int tensor, int chunk);
void copy_out_if_offloaded(StageDraft& draft, BodyBuilder& body, int tensor);

// The writer of the backward body calls these, for `layers`. The last tensors of the forward come
// back when the body begins. Each of the others comes back when the tensor that holds its buffer of
// the ring has been read for the last time.
void load_last_layers(StageDraft& draft, BodyBuilder& body);
void load_layer_after(StageDraft& draft, BodyBuilder& body, int node);

}  // namespace meshwright::compiler
