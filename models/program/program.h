// The Program of one pipeline stage: what happens and in which order. models/compiler/ makes it.
// The simulator replays it, the engine runs it, and neither decides anything.
//
// A body is a straight list of instructions. A task runs one body for one micro-batch, or at the
// begin or end of a step, and tasks are in schedule order. Instructions of one stream run in list
// order, task by task. `waits` name instructions that must have ended before. The list order of a
// body is itself a legal order for one thread that runs everything inline, provided that sends and
// receives do not block.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/program/graph/graph.h"
#include "models/program/graph/op_call.h"
#include "models/program/memory_plan.h"
#include "models/program/mesh.h"
#include "models/program/stage_layout.h"
#include "models/program/step_settings.h"

namespace meshwright::program {

enum class InstructionKind : std::uint8_t {
  compute,         // `op` on inputs -> outputs
  load_input,      // the data loader writes the input of the micro-batch that `channel` names into
                   // outputs[0]
  send,            // inputs[0] to the rank of stage `peer` with the same other coordinates
  recv,            // outputs[0] from the rank of stage `peer` with the same other coordinates
  all_reduce,      // in place: inputs[0] is outputs[0]
  all_gather,      // inputs[0] = own part, outputs[0] = all parts by group index (may contain
                   // inputs[0]); or outputs[i] = part i, at equal distances
  reduce_scatter,  // inputs[0] = whole, or each part; outputs[0] = own sum (may lie in inputs[0])
  all_to_all,      // part i of inputs[0] to member i; outputs[0] = what they sent here, in order
  broadcast,       // from member `root` to the others
  reduce,          // in place; the sum ends on member `root`, the others' data is lost
  ring_shift,      // outputs[0] = inputs[0] of the rank before in the group, in a ring
  copy_out,        // outputs[0] in host memory = inputs[0] on the device
  copy_in,         // outputs[0] on the device = inputs[0] in host memory
  optimizer_step   // updates the local part of the parameters and optimizer states of `bucket`
};

enum class Stream : std::uint8_t {
  compute,
  tensor_comm,
  shard_comm,
  pipe_send,
  pipe_recv,
  copy_out,
  copy_in,
  context_comm,
  expert_comm,
  pipe_send_back,
  pipe_recv_back
};
constexpr int stream_count = 11;

// Messages have streams of their own, one for sends and one for receives. A chunk may go back, from
// the last stage to the first (StageLayout::goes_back). It sends over the same pairs of stages as
// other chunks, but in another order. So messages that such chunks send have another two streams.
struct MessageStreams {
  Stream send, recv;
};
constexpr MessageStreams message_streams[] = {{Stream::pipe_send, Stream::pipe_recv},
                                              {Stream::pipe_send_back, Stream::pipe_recv_back}};
constexpr MessageStreams streams_of_messages(const StageLayout& layout, int sending_chunk) {
  return message_streams[layout.goes_back(sending_chunk) ? 1 : 0];
}
constexpr bool is_back(Stream stream) {
  return stream == Stream::pipe_send_back || stream == Stream::pipe_recv_back;
}
constexpr bool is_of_messages(Stream stream) {
  return stream == Stream::pipe_send || stream == Stream::pipe_recv || is_back(stream);
}

// Says for which tasks of its body an instruction runs. All micro-batches of a chunk share a body,
// but an instruction may be meant only for the first or the last task of the body in a step, or for
// micro-batches whose activations are offloaded.
enum class When : std::uint8_t { always, first_micro_batch, last_micro_batch, offloaded };

struct Operand {
  int buffer = -1;          // index into MemoryPlan::buffers
  std::int64_t offset = 0;  // bytes from the buffer's start
  TensorType type;
  // If it is not `none`, each rank of this group has a part of its own: its address is further on
  // by (index of the rank in the group) * type.bytes().
  GroupKind part_of = GroupKind::none;
  bool operator==(const Operand&) const = default;
};

// Channels of load_input: 0 tokens, 1 targets, 2 positions, 3 the tokens that a decoder reads, 4
// documents. From first_channel_ahead on, each depth of multi-token prediction has two channels:
// its tokens, then its targets.
constexpr int first_channel_ahead = 5;
constexpr int input_channels = first_channel_ahead + 2 * most_mtp_layers;
// From first_captured_channel on, each input of a captured model has a channel.
constexpr int first_captured_channel = input_channels, most_captured_inputs = 1 << 16;

// Names a run of an instruction that must have ended: an instruction of this task, or of the latest
// earlier task that runs `body` (in the same slot or window as this task, or in any). previous_task
// means the last compute instruction of the latest earlier task that has one (see `instruction`).
// If there is no such task, or it does not run the instruction, there is nothing to wait for.
struct Wait {
  enum class Relation : std::uint8_t {
    same_task,
    latest_with_slot,
    latest_with_window,
    latest,
    previous_task
  };
  Relation relation = Relation::same_task;
  int body = -1;        // for latest, latest_with_slot and latest_with_window
  int instruction = 0;  // its index in the body, or -1: the last one on stream compute that always
                        // runs
  bool operator==(const Wait&) const = default;
};

struct Instruction {
  InstructionKind kind = InstructionKind::compute;
  Stream stream = Stream::compute;
  When when = When::always;
  Op op = Op::add;                    // for compute
  GroupKind group = GroupKind::none;  // collectives; load_input: its ranks read a share each
  bool maximum = false;               // all_reduce: maximum instead of sum
  bool accumulate = false;            // reduce_scatter: the sum is added to outputs[0]
  // Bit i is set if outputs[i] is a sum over micro-batches that begins with this instruction. The
  // first task of the body in a step then overwrites the output instead of adding to it, so no
  // instruction has to clear the sum. Only compute (OpCall::overwrites) and instructions that
  // `accumulate` have such outputs.
  std::uint32_t overwrites = 0;
  bool flat = true;    // all_gather: one level over all hosts; false: two levels
  int root = 0;        // broadcast, reduce: index in the group
  int peer = -1;       // send, recv: the other stage
  int peer_chunk = 0;  // send, recv: the chunk of that stage
  int channel = 0;     // send, recv: tells apart messages of one task; load_input: what is read
  int bucket = -1;     // the bucket that it is about, such as that of an optimizer_step; -1: none
  int piece = -1;      // the piece of the bucket that is updated; -1: all of it
  int module = -1;     // index into Program::modules; -1: no module, as at the step's end
  Phase phase = Phase::forward;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
  std::vector<Wait> waits;
  bool operator==(const Instruction&) const = default;
};

struct Body {
  // weights: the part of a backward pass that only weight gradients need, if the schedule defers
  // it. load: brings a micro-batch's offloaded activations back to the device.
  enum class Kind : std::uint8_t { forward, backward, weights, step_begin, step_end, load };
  Kind kind = Kind::forward;
  int chunk = -1;  // -1 for the step's begin and end
  std::vector<Instruction> instructions;
  bool operator==(const Body&) const = default;
};

struct Task {
  int body = 0;
  int chunk = -1;
  int micro_batch_index = -1;  // in the step; -1: the task is for no micro-batch
  int slot = 0;                // the copy of the chunk's saved activations
  bool first = false;          // the first task of this body in the step
  bool last = false;           // the last task of this body in the step
  int window = 0;              // the copy of offloaded activations while they are on the device
  bool offloaded = false;      // the micro-batch's activations go to host memory and come back
  bool operator==(const Task&) const = default;
};

// A parameter as the ranks of this stage hold it. `copy_of_tied` marks the second copy of a tied
// weight, on another stage than the weight's first user. It is initialised and updated like the
// first copy, but not saved to checkpoints.
struct StageParameter {
  Parameter parameter;
  int chunk = 0;
  int bucket = 0;
  std::int64_t offset = 0;  // elements from the bucket's start
  bool copy_of_tied = false;
  // For a router's bias that moves with the choices (StepSettings::router_bias_update_rate): the
  // index of its layer's first count in Program::choice_counts_buffer. For other parameters, -1.
  std::int64_t first_count = -1;
  // adafactor: the index of a matrix's first factor in Program::factors_buffer. The factors of its
  // rows come first, then those of its columns (factored_shape). -1 if the parameter has no
  // factors.
  std::int64_t first_factor = -1;
  bool operator==(const StageParameter&) const = default;
};

// Elements of the local part of a bucket that are updated together. Buckets are updated in pieces
// if their optimizer states wait in host memory. The operands say where the states of the elements
// are on the device during the update. Buffer -1 means that there is no such state.
struct StatePiece {
  std::int64_t begin = 0, count = 0;
  Operand master, first_moment, second_moment, average;
  bool operator==(const StatePiece&) const = default;
};

// Parameters whose gradients are reduced together, or that are frozen. They are contiguous in the
// flat parameter, gradient and state buffers. If the bucket is sharded, `elements` is padded so
// that the shard group cuts it into equal parts. A bucket with an owner is not sharded: only its
// owners update it and hold its masters, moments and averages.
struct Bucket {
  std::int64_t elements = 0;
  std::int64_t shard_elements = 0;  // elements of the local part, which one rank updates
  std::vector<int> parameters;      // indices into Program::parameters, by offset
  Operand weights;                  // working copy (storage type); only the local part under ZeRO 3
  Operand gradients;  // summed over micro-batches; only the local part under ZeRO 2, 3
  Operand own_weights, own_gradients;  // the local part, which this rank updates
  Operand master;  // of the local part: fp32, or the 16 bits that own_weights lack (i16); equals
                   // own_weights if there is no master
  Operand first_moment, second_moment;  // of the local part; buffer -1 if the optimizer has none
  Operand average;          // of the weights over the steps, fp32 or fp64; buffer -1 if it is off
  bool sharded = false;     // the local part is part number `index in shard group`
  bool of_experts = false;  // parameters of experts: expert_* groups reduce and shard them
  // muon: the bucket holds whole matrices of linear layers. `update` is this rank's part of their
  // update by momentum, in fp32. `updates` has the parts of all ranks of the tensor group if they
  // share the matrices, and is `update` otherwise; muon makes it orthogonal.
  bool matrices = false;
  Operand update, updates;
  std::vector<StatePiece> pieces;  // if states wait in host memory; empty: all is updated at once
  bool factored = false;           // adafactor: matrices with factors in place of second moments
  bool frozen = false;  // weights that are not trained: no gradients or states; never updated
  bool has_master() const { return !(master == own_weights); }
  GroupKind rdp() const { return of_experts ? GroupKind::expert_rdp : GroupKind::rdp; }
  GroupKind shard() const { return of_experts ? GroupKind::expert_shard : GroupKind::shard; }
  GroupKind replica() const { return of_experts ? GroupKind::expert_replica : GroupKind::replica; }
  // Returns whether the groups that reduce and shard the bucket span tensor groups.
  bool is_over_tensor(const Degrees& degrees) const {
    return of_experts && degrees.experts_over_tensor;
  }
  // For checkpoints: fp32 (in precision fp64: fp64) copies of this rank's slice of the local part,
  // [states, slice]: master, first and second moment, average, without those that the bucket does
  // not have. Ranks with the same local part have a slice each. Buffer -1 means that there is no
  // snapshot.
  Operand snapshot;
  int states() const {
    return 1 + (first_moment.buffer >= 0) + (second_moment.buffer >= 0) + (average.buffer >= 0);
  }
  std::int64_t slice_elements() const { return snapshot.type.shape[1]; }
  Owner owner;
  bool operator==(const Bucket&) const = default;
};

// Settings that all stages of a job share. Readers of a job's Programs need them in addition to the
// instructions.
struct JobSettings {
  StepSettings training;
  Degrees degrees;  // `shard`: ranks that share one copy of the sharded states
  std::string placement = "PDT";
  int zero_stage = 0;
  Mesh mesh() const { return {degrees, placement}; }
  bool operator==(const JobSettings&) const = default;
};

struct Program {
  std::shared_ptr<const JobSettings> settings =
      std::make_shared<const JobSettings>();  // the same object in all stages; never null
  int stage = 0;
  StageLayout layout;  // of all stages
  int micro_batches = 1;
  std::shared_ptr<const std::vector<std::string>> modules;  // paths; the same object in all stages
  std::vector<StageParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<Body> bodies;
  std::vector<Task> tasks;
  MemoryPlan memory;
  Owner fullest{0, 0};  // a rank that owns most bytes; predictions are about this rank
  // Buffers in which the runtime finds the scalars of a step. All stages have loss_buffer and
  // norm_buffer, f64 [1] each, also stages without a loss. They are -1 only before the buffers are
  // planned.
  int loss_buffer = -1;  // sum of losses of this rank's micro-batches; after step_end, of the world
  // The sums of the losses of each depth of multi-token prediction, made like that in loss_buffer,
  // f64 [depths]. -1 if there are none.
  int mtp_loss_buffer = -1;
  // Squared gradient norm, of the scaled loss in fp16; after step_end, over all ranks of the group
  // `norm`.
  int norm_buffer = -1;
  // fp16: the scale of the next step's loss, f32 [1], and the counters by which it moves, f64
  // [loss_scale_state]. -1 for other precisions.
  int loss_scale_buffer = -1, loss_scale_state_buffer = -1;
  static constexpr int loss_scale_state = 6;
  // lamb, adafactor: the squared norms of each parameter and of its update, f64 [2 * parameters].
  // -1 for other optimizers.
  int parameter_norms_buffer = -1;
  // fp8 with delayed scales: names of the rounded tensors (Graph::rounded), and the buffers f32
  // [rounded, 2] and [rounded, history_steps] of Op::update_largest; -1 otherwise. They are equal
  // on all ranks of the stage at the end of a step. A history of 1024, of which the largest counts,
  // without a margin, is the default of NVIDIA's Transformer Engine (DelayedScaling; its history
  // counts uses, one for each micro-batch, not steps).
  std::vector<std::string> rounded;
  int largest_buffer = -1, history_buffer = -1;
  static constexpr int history_steps = 1024;
  // Number of tokens that chose each expert of each layer of this stage, f64, for routers whose
  // bias moves with the choices; after step_end it counts the global batch. -1 if no router needs
  // it.
  int choice_counts_buffer = -1;
  // With Training::measure_expert_load, choice_counts_buffer counts the choices of this many
  // routers instead: all that the model has, one after the other. Otherwise 0.
  int counted_routers = 0;
  // adafactor: the factors, f32: means of squared gradients over the rows and columns of matrices,
  // equal on all ranks; and f64 of the same number: this step's sums, then the factors of
  // gradients. -1 for other optimizers.
  int factors_buffer = -1, factor_sums_buffer = -1;
  std::int64_t targets_per_step = 0;  // of the global batch
  // Compares settings, modules and the bodies of fusions as objects: two are equal only if they are
  // the same object.
  bool operator==(const Program&) const = default;
};

// A run of an instruction, as (task, instruction). resolve() returns the run that a wait of an
// instruction in task `task` names. The run has task -1 if there is nothing to wait for.
struct RunId {
  int task = -1;
  int instruction = 0;
  auto operator<=>(const RunId&) const = default;  // in list order
};
RunId resolve(const Program& program, int task, const Wait& wait);  // slow: for tests

// Does the same as resolve() for many waits. Its constructor walks the tasks once and notes which
// task ran each body last.
class WaitResolver {
 public:
  explicit WaitResolver(const Program& program);
  RunId operator()(int task, const Wait& wait) const;

 private:
  const Program* program_;
  std::vector<int> latest_, latest_with_slot_,
      latest_with_window_;         // [task * bodies + body]: the latest earlier task, or -1
  std::vector<int> last_compute_;  // per body
};

// Returns the stream on which a send or recv of a body of this chunk runs.
inline Stream stream_of_message(const StageLayout& layout, const Instruction& instruction,
                                int chunk) {
  return instruction.kind == InstructionKind::send
             ? streams_of_messages(layout, chunk).send
             : streams_of_messages(layout, instruction.peer_chunk).recv;
}

// Returns the virtual stage that a send or recv exchanges its message with.
inline int peer_virtual_stage(const Program& program, const Instruction& instruction) {
  return program.layout.virtual_stage(instruction.peer, instruction.peer_chunk);
}

bool runs(When when, const Task& task);
inline bool runs(const Instruction& instruction, const Task& task) {
  return runs(instruction.when, task);
}

// Returns the bits of Instruction::overwrites that hold in this task. They are all 0 unless it is
// the first task of its body in the step.
inline std::uint32_t overwrites_in(const Instruction& instruction, const Task& task) {
  return task.first ? instruction.overwrites : 0;
}

// Returns whether a rank takes part in an instruction. If the instruction is about a bucket with an
// owner, and has no group or a group `embedding` or `pipeline`, only the owners do. All ranks take
// part in all other instructions.
bool concerns(const Program& program, const Instruction& instruction, const Owner& rank);

// Returns the scratch memory, in bytes, of the compute instruction that needs most. `bytes_of`
// returns the bytes that an operation needs on the device in question. Instructions use the same
// memory one after the other.
std::int64_t scratch_memory(const Program& program,
                            const std::function<std::int64_t(const OpCall&)>& bytes_of);

// Checks the rules of Programs: waits name earlier instructions, operands are inside their buffers,
// collectives over several stages come in one order on all of them, sends meet receives, there is
// no deadlock, and the stages' MemoryPlans and slots are right. Returns the first broken rule in
// words, or "" if all hold. Indices of bodies, chunks, stages and owners must be valid.
std::string broken_rule(const std::vector<Program>& stages);
// Aborts with a message if a rule is broken (MESHWRIGHT_CHECK). It is for Programs that meshwright
// made itself, in which this is a bug.
void verify(const std::vector<Program>& stages);

std::string to_text(const Program& program);

}  // namespace meshwright::program
