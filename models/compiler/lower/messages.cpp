#include "models/compiler/lower/messages.h"

#include <algorithm>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"

namespace meshwright::compiler {

namespace {

// Returns whether each rank of the tensor group sends a part of the tensor. This is so with
// pipeline_scatter_gather, if all these ranks hold activations whole and the rows divide.
bool sends_parts(const StageDraft& draft, int tensor) {
  const Parallelism& parallelism = draft.plan.parallelism;
  return parallelism.pipeline_scatter_gather && parallelism.tensor > 1 &&
         draft.graph.held == Held::whole &&
         draft.graph.tensor(tensor).type.shape[0] % parallelism.tensor == 0;
}

// Returns the part of the tensor that this rank sends or receives.
Operand part_for_message(const StageDraft& draft, int tensor, Operand whole) {
  if (!sends_parts(draft, tensor)) return whole;
  whole.type.shape[0] /= draft.plan.parallelism.tensor;
  whole.part_of = GroupKind::tensor;
  return whole;
}

Instruction message_with(const StageDraft& draft, const BodyBuilder& body, InstructionKind kind,
                         int peer) {
  Instruction message;
  message.kind = kind;
  message.phase = body.is_backward() ? Phase::backward : Phase::forward;
  message.peer = draft.program.layout.stage_of(peer);
  message.peer_chunk = draft.chunk_of(peer);
  message.stream = stream_of_message(draft.program.layout, message, body.chunk());
  return message;
}

// Returns whether a received tensor is kept in a slot. A tensor that a backward body receives
// mostly is not, because only that body uses it.
bool received_in_slot(const BodyBuilder& body, const TensorFlow& flow) {
  return !body.is_backward() || flow.kept_by_previous;
}

Operand place_received(StageDraft& draft, const BodyBuilder& body, int tensor) {
  const TensorType& type = draft.graph.tensor(tensor).type;
  const bool backward = body.is_backward();
  const Offloaded* each = backward ? nullptr : find_offloaded(draft, tensor, body.chunk());
  const std::string_view name = backward ? "recv_gradient" : "recv_activation";
  int buffer = -1;
  if (each)
    buffer = each->device;
  else if (received_in_slot(body, draft.boundaries.tensors[tensor]))
    buffer =
        add_buffer(draft, name, MemoryClass::activations, Region::slot, type.bytes(), body.chunk());
  else
    buffer = add_buffer(draft, name, MemoryClass::communication, Region::persistent, type.bytes());
  return draft.places.received[tensor] = {buffer, 0, type, GroupKind::none};
}

void gather_parts(BodyBuilder& body, const Instruction& recv, const Operand& whole) {
  Instruction gather;
  gather.kind = InstructionKind::all_gather;
  gather.stream = Stream::tensor_comm;
  gather.group = GroupKind::tensor;
  gather.phase = recv.phase;
  gather.inputs = recv.outputs;
  gather.outputs = {whole};
  body.emit(std::move(gather));
}

// Returns the number of the last body of a chunk that computes anything. If a schedule splits
// backwards, the weights body may be empty, for example that of a chunk with only a head whose loss
// is fused.
int last_computing_body(const StageDraft& draft, int chunk) {
  const Boundaries& boundaries = draft.boundaries;
  const bool computes =
      std::ranges::any_of(boundaries.nodes[draft.virtual_stage(chunk)],
                          [&](int node) { return boundaries.body[node] == Body::Kind::weights; });
  return computes ? draft.last_body(chunk) : draft.backward_body(chunk);
}

void receive_tensor(StageDraft& draft, BodyBuilder& body, int tensor, int from, int channel) {
  const Operand whole = place_received(draft, body, tensor);
  Instruction recv = message_with(draft, body, InstructionKind::recv, from);
  recv.channel = channel;
  recv.outputs = {part_for_message(draft, tensor, whole)};
  // The message waits until the last user of an earlier micro-batch has finished with the buffer.
  const int chunk = body.chunk();
  recv.waits.push_back(
      received_in_slot(body, draft.boundaries.tensors[tensor])
          ? Wait{Wait::Relation::latest_with_slot, last_computing_body(draft, chunk), -1}
          : Wait{Wait::Relation::latest, draft.backward_body(chunk), -1});
  body.emit(recv);
  if (sends_parts(draft, tensor)) gather_parts(body, recv, whole);
  if (!body.is_backward()) copy_out_if_offloaded(draft, body, tensor);
}

// Returns the channel of a message: the number of tensors before this one that its virtual stage
// sends in the same kind of body.
int channel_of(const StageDraft& draft, int tensor, bool backward) {
  const std::vector<TensorFlow>& flows = draft.boundaries.tensors;
  const int maker = flows[tensor].maker;
  return static_cast<int>(std::count_if(
      flows.begin(), flows.begin() + tensor,
      [&](const TensorFlow& flow) { return flow.maker == maker && flow.crosses(backward); }));
}

}  // namespace

void receive(StageDraft& draft, BodyBuilder& body) {
  const bool backward = body.is_backward();
  const int from = draft.virtual_stage(body.chunk()) + (backward ? 1 : -1);
  int channel = 0;
  for (int tensor = 0; tensor < static_cast<int>(draft.boundaries.tensors.size()); ++tensor) {
    const TensorFlow& flow = draft.boundaries.tensors[tensor];
    if (flow.maker == from && flow.crosses(backward))
      receive_tensor(draft, body, tensor, from, channel++);
  }
}

// Sends the tensor. The instruction that makes it waits until the message of an earlier micro-batch
// has left the buffer.
void send(StageDraft& draft, BodyBuilder& body, int tensor, int producer) {
  const Operand whole = draft.places.own[tensor];
  const bool backward = body.is_backward();
  const int chunk = body.chunk();
  const int to = draft.virtual_stage(chunk) + (backward ? -1 : 1);
  Instruction message = message_with(draft, body, InstructionKind::send, to);
  message.channel = channel_of(draft, tensor, backward);
  message.inputs = {part_for_message(draft, tensor, whole)};
  const int index = body.emit(std::move(message));
  const bool in_slot = draft.buffer(whole.buffer).region == Region::slot;
  const Wait emptied{in_slot ? Wait::Relation::latest_with_slot : Wait::Relation::latest,
                     backward ? draft.backward_body(chunk) : draft.forward_body(chunk), index};
  std::vector<Instruction>& instructions = body.body().instructions;
  const auto last = instructions.begin() + producer + 1;
  const auto writer = std::find_if(instructions.begin(), last, [&](const Instruction& each) {
    return std::ranges::any_of(each.outputs,
                               [&](const Operand& o) { return o.buffer == whole.buffer; });
  });
  if (writer != last) writer->waits.push_back(emptied);
}

}  // namespace meshwright::compiler
