// The Program of one pipeline stage: what happens and in which order, decided once. The simulator
// replays it, the engine runs it; neither decides anything.
//
// A body is a straight list of instructions; a task runs one body for one micro-batch; tasks are in
// schedule order. Instructions of one stream run in list order (task by task); `waits` name
// instructions of other streams that must have ended before. The list order of a body is itself a
// legal order for one thread that does everything inline, provided that sends and receives do not
// block.
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

namespace meshwright {

enum class InstructionKind : std::uint8_t {
  compute,         // `op` on inputs -> outputs
  load_input,      // the data loader writes tokens, targets or positions of the micro-batch into
                   // outputs[0]
  send,            // inputs[0] to the same coordinates of another virtual stage
  recv,            // outputs[0] from there
  all_reduce,      // in place: inputs[0] is outputs[0]
  all_gather,      // inputs[0] = own part, outputs[0] = all parts by group index (may contain
                   // inputs[0]); or outputs[i] = part i, at equal distances
  reduce_scatter,  // inputs[0] = whole, or each part; outputs[0] = own sum (may lie in inputs[0])
  all_to_all,      // part i of inputs[0] to member i; outputs[0] = what they sent here, in order
  broadcast,       // from member `root` to the others
  reduce,          // in place; the sum ends on member `root`, the others' data is lost
  ring_shift,      // outputs[0] = inputs[0] of the rank before in the group, in a ring
  copy_out,        // device to host
  copy_in,         // host to device
  optimizer_step   // on `bucket`: own part of parameters and optimizer states
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

// Messages have streams of their own, one for each end. Between two stages what chunks that go back
// send takes the way of the other chunks' gradients, or activations, in another order: it has
// streams of its own again.
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

// Bodies are shared by all micro-batches; an instruction may be meant for the first or last one of
// its chunk only, or for those whose activations are offloaded.
enum class When : std::uint8_t { always, first_micro_batch, last_micro_batch, offloaded };

struct Operand {
  int buffer = -1;          // index into MemoryPlan::buffers
  std::int64_t offset = 0;  // bytes from the buffer's start
  TensorType type;
  GroupKind part_of =
      GroupKind::none;  // the address moves on by (index in this group) * type.bytes()
  bool operator==(const Operand&) const = default;
};

// Channels of load_input: 0 tokens, 1 targets, 2 positions, 3 what a decoder reads, 4 documents.
// From first_channel_ahead on, each depth of multi-token prediction has two: its tokens, then its
// targets.
constexpr int first_channel_ahead = 5;
constexpr int input_channels = first_channel_ahead + 2 * most_mtp_layers;

// Which run of an instruction must have ended: an instruction of this task, or of the latest
// earlier task that runs `body` (with the same slot or window as this task, or whatever slot). No
// such earlier task: nothing to wait for. previous_task: the latest earlier one that computes.
struct Wait {
  enum class Relation : std::uint8_t {
    same_task,
    latest_with_slot,
    latest_with_window,
    latest,
    previous_task
  };
  Relation relation = Relation::same_task;
  int body = -1;        // latest, latest_with_slot, latest_with_window
  int instruction = 0;  // -1: the body's last compute instruction that always runs
  bool operator==(const Wait&) const = default;
};

struct Instruction {
  InstructionKind kind = InstructionKind::compute;
  Stream stream = Stream::compute;
  When when = When::always;
  Op op = Op::add;                    // compute
  GroupKind group = GroupKind::none;  // collectives; load_input: its ranks read a share each
  bool maximum = false;               // all_reduce: maximum instead of sum
  bool accumulate = false;            // reduce_scatter: the sum is added to outputs[0]
  // Bit i: outputs[i] is a sum over micro-batches that begins here. In the body's first task of a
  // step it is overwritten instead of added to (OpCall::overwrites; a reduce_scatter does not
  // accumulate), so nothing clears it.
  std::uint32_t overwrites = 0;
  bool flat = true;    // all_gather: in one level over all hosts, not in two
  int root = 0;        // broadcast, reduce: index in the group
  int peer = -1;       // send, recv: the other stage
  int peer_chunk = 0;  // and the chunk that it does so for
  int channel = 0;     // send, recv: tells apart messages of one task; load_input: input_channels
  int bucket = -1;     // optimizer_step, sum_of_squares, bucket collectives, copies of states
  int piece = -1;      // optimizer_step, lamb_norms: of the bucket; -1: all of it
  int module = -1;     // index into Program::modules; -1: the step's end
  Phase phase = Phase::forward;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
  std::vector<Wait> waits;
  bool operator==(const Instruction&) const = default;
};

struct Body {
  // weights: the part of a backward that only weight gradients need, where the schedule defers it.
  // load: brings a micro-batch's offloaded activations back to the device.
  enum class Kind : std::uint8_t { forward, backward, weights, step_begin, step_end, load };
  Kind kind = Kind::forward;
  int chunk = -1;  // -1 for the step's begin and end
  std::vector<Instruction> instructions;
  bool operator==(const Body&) const = default;
};

struct Task {
  int body = 0;
  int chunk = -1;
  int micro_batch_index = -1;  // of the step; -1: for none
  int slot = 0;                // which copy of the chunk's saved activations
  bool first = false;          // of this body in the step
  bool last = false;
  int window = 0;          // which copy of what is offloaded, while it is on the device
  bool offloaded = false;  // the micro-batch's activations go to host memory and come back
  bool operator==(const Task&) const = default;
};

// A parameter as the ranks of this stage hold it. `copy_of_tied`: the second copy of a tied weight,
// on the last stage; initialised and updated like the first, never counted, saved or hashed.
struct StageParameter {
  Parameter parameter;
  int chunk = 0;
  int bucket = 0;
  std::int64_t offset = 0;  // elements from the bucket's start
  bool copy_of_tied = false;
  // For a router's bias that moves with the choices (StepSettings::router_bias_update_rate), the
  // index of its layer's first count in the counts of choices. For other parameters, -1.
  std::int64_t first_count = -1;
  // adafactor: the index in Program::factors_buffer of a matrix's first factor. The factors of its
  // rows come first, then those of its columns (factored_shape). -1 if there are none.
  std::int64_t first_factor = -1;
  bool operator==(const StageParameter&) const = default;
};

// Elements of a bucket's own part that are stepped together, and where their states are then; they
// wait in host memory otherwise. Buffer -1: there is no such state.
struct StatePiece {
  std::int64_t begin = 0, count = 0;
  Operand master, first_moment, second_moment, average;
  bool operator==(const StatePiece&) const = default;
};

// Parameters whose gradients are reduced together; contiguous in the flat parameter, gradient and
// state buffers. `elements` is padded so that the shard group cuts it into equal parts. A bucket
// with an owner is not cut: its owners alone hold optimizer states for it and step it.
struct Bucket {
  std::int64_t elements = 0;
  std::int64_t shard_elements =
      0;                        // what one rank's optimizer steps: elements, or elements / shard
  std::vector<int> parameters;  // indices into Program::parameters, by offset
  Operand weights;              // working copy (storage type); own part only under ZeRO 3
  Operand gradients;            // summed over micro-batches; own part only under ZeRO 2 and 3
  Operand own_weights, own_gradients;  // the part that this rank steps
  Operand master;  // fp32 own part, or what own_weights lack of it (i16); own_weights where there
                   // is none
  Operand first_moment, second_moment;  // own part; buffer -1 where the optimizer has none
  Operand average;          // fp32, of the weights over the steps; buffer -1 where none is kept
  bool sharded = false;     // own part = part `index in shard group`
  bool of_experts = false;  // of what the expert group shares: other groups reduce and shard it
  // muon: whole matrices of linear layers, and what becomes of their gradients on this rank and on
  // all of the tensor group, where ranks share them.
  bool matrices = false;
  Operand update, updates;
  std::vector<StatePiece> pieces;  // where states wait in host memory; else all is stepped at once
  bool factored = false;           // adafactor: matrices, of which no moments are kept
  bool frozen = false;  // weights that are not trained: no gradients, no states; never stepped
  bool has_master() const { return !(master == own_weights); }
  GroupKind rdp() const { return of_experts ? GroupKind::expert_rdp : GroupKind::rdp; }
  GroupKind shard() const { return of_experts ? GroupKind::expert_shard : GroupKind::shard; }
  GroupKind replica() const { return of_experts ? GroupKind::expert_replica : GroupKind::replica; }
  // For checkpoints: fp32 copies of this rank's slice of the own part, [states, slice] (master,
  // first, second moment, average; what a bucket has not got of these is 0). The ranks with the
  // same own part have a slice each. Buffer -1: none.
  Operand snapshot;
  int states() const {
    return 1 + (first_moment.buffer >= 0) + (second_moment.buffer >= 0) + (average.buffer >= 0);
  }
  std::int64_t slice_elements() const { return snapshot.type.shape[1]; }
  Owner owner;
  bool operator==(const Bucket&) const = default;
};

// Settings that all stages of a job share. Readers of their Programs need them in addition to the
// instructions.
struct JobSettings {
  StepSettings training;
  Degrees degrees;  // `shard`: ranks that share one copy of what is sharded
  std::string placement = "PDT";
  int zero_stage = 0;
  Mesh mesh() const { return {degrees, placement}; }
  bool operator==(const JobSettings&) const = default;
};

struct Program {
  std::shared_ptr<const JobSettings> settings =
      std::make_shared<const JobSettings>();  // one for all stages; never null
  int stage = 0;
  StageLayout layout;  // of all stages
  int micro_batches = 1;
  std::shared_ptr<const std::vector<std::string>> modules;  // paths; one list for all stages
  std::vector<StageParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<Body> bodies;
  std::vector<Task> tasks;
  MemoryPlan memory;
  Owner fullest{0, 0};  // a rank that owns most; it stands for all in the simulator
  // Buffers in which the runtime finds its scalars, f64 [1] each. They are -1 on stages without a
  // loss.
  int loss_buffer =
      -1;  // sum of losses of this rank's micro-batches, after step_end over the world
  // The losses of each depth of multi-token prediction, summed in the same way, f64 [depths]. -1 if
  // there are none.
  int mtp_loss_buffer = -1;
  int norm_buffer =
      -1;  // squared gradient norm (of the scaled loss), after step_end over the group
  // fp16: the scale of the next step's loss, f32 [1], and what moves it, f64 [loss_scale_state]. -1
  // otherwise.
  int loss_scale_buffer = -1, loss_scale_state_buffer = -1;
  static constexpr int loss_scale_state = 6;
  // lamb, adafactor: f64 [2 * parameters]: squared norms of each parameter and of its update; -1
  // otherwise.
  int parameter_norms_buffer = -1;
  // fp8 with delayed scales: what is rounded (Graph::rounded); f32 [rounded, 2] and [rounded,
  // history_steps], see Op::update_largest; -1 otherwise. Equal on all ranks of the stage when a
  // step is over. 1024 steps, of which the largest counts, without a margin, are the defaults of
  // NVIDIA's Transformer Engine (DelayedScaling; there a step is a use: of a micro-batch).
  std::vector<std::string> rounded;
  int largest_buffer = -1, history_buffer = -1;
  static constexpr int history_steps = 1024;
  // f64: how many tokens of a step chose each expert of each layer of this stage whose router's
  // bias moves with the choices; after step_end of the global batch. -1: there is none.
  int choice_counts_buffer = -1;
  // With Training::measure_expert_load, the counts are of this many routers instead, all that the
  // model has, one after the other. Otherwise 0.
  int counted_routers = 0;
  // adafactor: f32, means of squared gradients of the rows and columns of matrices, as all ranks
  // have them; f64, as many: this step's sums, then what gradients are multiplied by. -1 otherwise.
  int factors_buffer = -1, factor_sums_buffer = -1;
  std::int64_t targets_per_step = 0;  // of the global batch
  // Settings and modules, and the bodies of fusions, are equal where they are the same object.
  bool operator==(const Program&) const = default;
};

// The absolute runs that waits[i] of an instruction in task t name: (task, instruction), or task
// -1.
struct RunId {
  int task = -1;
  int instruction = 0;
  auto operator<=>(const RunId&) const = default;  // in list order
};
RunId resolve(const Program& program, int task, const Wait& wait);  // slow: for tests

// resolve() for many: which tasks ran a body last is found once by walking the tasks in order.
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

// Returns the bits of Instruction::overwrites that hold in this task.
inline std::uint32_t overwrites_in(const Instruction& instruction, const Task& task) {
  return task.first ? instruction.overwrites : 0;
}

// Returns whether a rank has something to do. Instructions on a bucket with an owner are done by
// the owner only.
bool concerns(const Program& program, const Instruction& instruction, const Owner& rank);

// Returns the scratch memory, in bytes, of the compute instruction that needs most. `bytes_of`
// returns what an operation needs on some device. Instructions use the same memory one after the
// other.
std::int64_t scratch_memory(const Program& program,
                            const std::function<std::int64_t(const OpCall&)>& bytes_of);

// Checks the rules of Programs: waits name earlier things, collectives of one communicator come in
// one order on all stages, sends meet receives, there is no deadlock, and the stages' MemoryPlans
// are right. Returns the first rule that is broken, in words, or "" if there is none. All indices
// must be valid.
std::string broken_rule(const std::vector<Program>& stages);
// Verifies Programs that meshwright made itself. A broken rule is a bug (MESHWRIGHT_CHECK).
void verify(const std::vector<Program>& stages);

std::string to_text(const Program& program);

}  // namespace meshwright
