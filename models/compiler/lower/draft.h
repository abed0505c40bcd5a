// Holds one stage while it is lowered: the facts about the stage, and the parts of its program that
// are written so far. lower.cpp lists the steps that write it.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "models/compiler/lower/boundaries.h"
#include "models/compiler/lower/buckets.h"
#include "models/compiler/lower/offload.h"
#include "models/compiler/lower/sharded_units.h"
#include "models/compiler/plan/plan.h"
#include "models/compiler/schedule/slot_pools.h"
#include "models/program/device_facts.h"
#include "models/program/program.h"

namespace meshwright::compiler {

// The operands of tensors that a body makes (`own`), and of activations that a virtual stage
// receives from a neighbour (`received`). The lists are as long as the graph has tensors, so all
// stages share them. Each stage reads only the entries that it has written itself.
struct TensorPlaces {
  std::vector<Operand> own, received;
  // Maps {tensor, virtual stage} to where an input is stored, because several virtual stages may
  // load the same one.
  std::map<std::pair<int, int>, Operand> loaded;
};

struct StageDraft {
  const Graph& graph;
  const Plan& plan;
  const DeviceFacts& device;
  const Boundaries& boundaries;
  TensorPlaces& places;
  Degrees degrees;
  int zero_stage = 0;         // the plan's, but 0 if the shard group is one rank
  bool reduces_each = false;  // gradients are reduced in every micro-batch
  bool splits_backwards = false;
  Program program;  // its own list of buckets is filled near the end, from `buckets`
  std::vector<BucketPlan> buckets;
  // Per parameter of the graph: its index in the program, or -1 if it is not on this stage.
  std::vector<int> member_of;
  ShardedUnits units;
  Offloads offloads;
  std::vector<std::int64_t> slot_bytes;  // per chunk: bytes of one micro-batch's slot
  SlotPools pools;
  std::vector<Instruction> of_step;  // instructions that prepare parameters when a step begins
  // Maps the module of a router whose choices are counted to the index of its first count.
  std::map<int, std::int64_t> first_count;

  bool works_by_units() const { return zero_stage == 3 || reduces_each; }
  int chunks() const { return program.layout.chunks; }
  int virtual_stage(int chunk) const { return program.layout.virtual_stage(program.stage, chunk); }
  int chunk_of(int virtual_stage) const { return program.layout.chunk_of(virtual_stage); }
  Buffer& buffer(int id) { return program.memory.buffers[id]; }

  // The numbers of bodies, in this order: the step's begin; for every chunk its forward, backward
  // and, if backwards are split, weights body; the step's end; and a load body for every chunk if
  // activations of whole tasks are offloaded.
  int bodies_per_chunk() const { return splits_backwards ? 3 : 2; }
  int forward_body(int chunk) const { return 1 + bodies_per_chunk() * chunk; }
  int backward_body(int chunk) const { return forward_body(chunk) + 1; }
  int last_body(int chunk) const { return forward_body(chunk) + bodies_per_chunk() - 1; }
  int end_body() const { return forward_body(chunks()); }
  int load_body(int chunk) const { return end_body() + 1 + chunk; }
};

}  // namespace meshwright::compiler
