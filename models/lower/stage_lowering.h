// Lowers one pipeline stage. The parts: forward_backward.cpp writes the bodies of its chunks,
// step.cpp what surrounds them, offload.cpp what waits in host memory, memory.cpp lays the buffers
// out, tasks.cpp puts bodies in schedule order.
#pragma once

#include <string_view>
#include <vector>

#include "models/lower/body_builder.h"
#include "models/lower/boundaries.h"
#include "models/lower/buckets.h"
#include "models/lower/unit_buffers.h"
#include "models/plan/program.h"

namespace meshwright {

// Shared by the stages of one graph: where each activation lies on the stage that makes it and on
// the next one.
struct TensorPlaces {
  std::vector<Operand> own, received;
};

class StageLowering {
 public:
  StageLowering(const Graph& graph, const Plan& plan, const Boundaries& boundaries,
                TensorPlaces& places, int stage);
  Program run();

 private:
  // memory.cpp
  int add_buffer(std::string_view name, MemoryClass cls, Region region, std::int64_t bytes,
                 int chunk = -1);
  void place_buckets();
  int replicas_of(const Bucket& bucket) const;  // ranks that have the same own part
  std::int64_t snapshot_slice(const Bucket& bucket) const;
  void find_slot_lifetimes();
  void place_bucket(BucketPlan& planned);
  void place_unit_buffers();
  std::vector<std::vector<std::int64_t>> lay_out_by_owner(
      const std::vector<Buffer*>& buffers) const;
  void lay_out_owned();
  void lay_out_memory();

  // forward_backward.cpp
  void write_forward(int chunk);
  void write_backward(int chunk, Body::Kind kind);  // backward or weights
  void receive(BodyBuilder& body, int virtual_stage, bool backward);
  void gather_parts(BodyBuilder& body, const Instruction& recv, const Operand& whole);
  void sum_losses(BodyBuilder& body, int virtual_stage);
  void load_inputs(BodyBuilder& body, int virtual_stage);
  void write_nodes(BodyBuilder& body, int virtual_stage);
  void reduce_what_is_ready(BodyBuilder& body, int node);
  std::vector<int> units_in_order(int virtual_stage, Body::Kind body) const;
  int emit_node(BodyBuilder& body, const Node& node, int virtual_stage);
  void emit_send(BodyBuilder& body, int tensor, int producer, int virtual_stage, bool backward);
  Operand place_output(int tensor, int virtual_stage);
  Operand operand(int tensor, int virtual_stage);
  bool sends_parts(int tensor) const;
  Operand part_for_send(Operand whole) const;

  // sharded_units.cpp (ZeRO 2 and 3)
  void enter_unit(BodyBuilder& body, const std::vector<int>& units, std::size_t position,
                  bool backward);
  void gather_ahead(BodyBuilder& body, const std::vector<int>& units, std::size_t position,
                    bool backward);
  void gather_unit(BodyBuilder& body, int unit, bool backward);
  void zero_unit(BodyBuilder& body, int unit);
  void reduce_unit_bucket(BodyBuilder& body, int bucket);
  void reduce_shared_unit(BodyBuilder& body);
  std::int64_t unit_elements(int unit) const;
  int gather_buffers() const;
  std::int64_t elements_live_with(int buffers) const;
  void wait_for_earlier_reductions();

  // step.cpp
  void write_begin();
  void write_end();
  int reduce_bucket(BodyBuilder& body, int bucket, When when);
  void emit_collective(BodyBuilder& body, InstructionKind kind, GroupKind group,
                       const Operand& input, const Operand& output, When when, int bucket);
  void finish_reduction(BodyBuilder& body, int bucket);
  void measure_norm(BodyBuilder& body);
  void update_loss_scale(BodyBuilder& body);
  void measure_parameters(BodyBuilder& body);
  void step_and_share(BodyBuilder& body);
  std::int64_t scratch_elements(const Bucket& bucket) const;
  Operand optimizer_scratch(std::int64_t elements);
  std::vector<Operand> states_of(const Bucket& bucket) const;

  // offload.cpp
  struct Offloaded {  // a checkpointed activation that waits in host memory
    int tensor = -1;
    int device = -1, host = -1;       // buffers
    int copy_out = -1, copy_in = -1;  // instructions: of the forward body; of the load body
    int last_reader = -1;             // node of the backward body
  };
  bool offloads_layers() const;
  bool offloads_tasks(int chunk) const;
  const Offloaded* find_offloaded(int tensor, int virtual_stage) const;
  int base_of(int tensor) const;
  void choose_offloaded(int chunk);
  void place_offloaded(Offloaded& each, int chunk);
  void emit_copy(BodyBuilder& body, Offloaded& each, bool out);
  void copy_out_if_offloaded(BodyBuilder& body, int tensor);
  void write_load(int chunk);
  void load_last_layers(BodyBuilder& body);
  void load_layer_after(BodyBuilder& body, int node);
  template <class Visit>
  void for_first_users(int body, int buffer, bool writers, const Visit& visit);
  void wait_until_read(Instruction& writer, Wait::Relation relation, int chunk);
  void wait_for_windows(int chunk);
  void wait_for_ring();
  void wait_for_offloaded();

  // tasks.cpp
  void write_tasks();

  // A chunk's bodies: forward, backward and, where the schedule splits backwards, weights.
  int bodies_per_chunk() const { return splits_ ? 3 : 2; }
  int forward_body(int chunk) const { return 1 + bodies_per_chunk() * chunk; }
  int backward_body(int chunk) const { return forward_body(chunk) + 1; }
  int last_body(int chunk) const { return forward_body(chunk) + bodies_per_chunk() - 1; }
  int end_body() const { return forward_body(plan_.parallelism.virtual_stages); }
  int load_body(int chunk) const { return end_body() + 1 + chunk; }
  int virtual_stage(int chunk) const { return layout_.virtual_stage(stage_, chunk); }
  Buffer& buffer(int id) { return program_.memory.buffers[static_cast<std::size_t>(id)]; }

  const Graph& graph_;
  const Plan& plan_;
  const Boundaries& boundaries_;
  TensorPlaces& places_;
  int stage_;
  StageLayout layout_;
  Degrees degrees_;
  int zero_stage_;
  bool splits_;  // the schedule splits backwards
  Program program_;
  std::vector<BucketPlan> buckets_;
  std::vector<int> member_of_;  // graph parameter -> program parameter, -1
  std::vector<int>
      reduced_into_;  // tensor -> the tensor that an in-place all-reduce makes of it, -1
  std::vector<int> input_buffer_;          // by channel of load_input: buffer, -1
  UnitBuffers gathered_, unit_gradients_;  // ZeRO 3; ZeRO 2 and 3
  std::size_t gathered_units_ = 0;         // of the body that is being written
  std::vector<std::vector<int>>
      first_zeros_;  // per chunk: instructions that reuse a buffer of an earlier task
  std::vector<int> last_reduction_;                // per chunk: of its backward body
  std::vector<std::vector<Offloaded>> offloaded_;  // per chunk, in the order in which they are made
  std::vector<int> ring_;                          // buffers that layers' inputs use in turn
  std::vector<RunId> bucket_done_;  // (body, instruction) of the reduction in a chunk's body
};

}  // namespace meshwright
