// The forward and backward bodies of a stage's chunks.
#include <algorithm>
#include <array>

#include "models/core/error.h"
#include "models/graph/fusion.h"
#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

bool takes_loss_scale(const Node& node) {
  if (node.op != Op::fused) return info(node.op).takes_loss_scale;
  const auto& steps = node.attributes.fusion->steps;
  return std::any_of(steps.begin(), steps.end(),
                     [](const FusedStep& step) { return info(step.op).takes_loss_scale; });
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Communication {
  InstructionKind kind;
  GroupKind group = GroupKind::tensor;
  Stream stream = Stream::tensor_comm;
};

Communication communication_of(Op op) {
  switch (op) {
    case Op::sequence_gather:
    case Op::stats_gather:
      return {InstructionKind::all_gather};
    case Op::sequence_scatter:
      return {InstructionKind::reduce_scatter};
    case Op::context_shift:
      return {InstructionKind::ring_shift, GroupKind::context, Stream::context_comm};
    case Op::context_gather:
      return {InstructionKind::all_gather, GroupKind::context, Stream::context_comm};
    case Op::context_scatter:
      return {InstructionKind::reduce_scatter, GroupKind::context, Stream::context_comm};
    case Op::expert_exchange:
      return {InstructionKind::all_to_all, GroupKind::expert, Stream::expert_comm};
    default:
      return {InstructionKind::all_reduce};
  }
}

// In the order of load_input's channels.
std::array<int, input_channels> inputs_of(const Graph& graph) {
  return {graph.tokens, graph.targets, graph.positions, graph.decoder_tokens};
}

}  // namespace

// The units of a virtual stage's nodes in list order, each once per run.
std::vector<int> StageLowering::units_in_order(int stage, Body::Kind body) const {
  std::vector<int> units;
  for (int index : boundaries_.nodes[at(stage)]) {
    if (boundaries_.body[at(index)] != body) continue;
    const int unit = graph_.unit_of(graph_.nodes[at(index)]);
    if (units.empty() || units.back() != unit) units.push_back(unit);
  }
  return units;
}

// Between stages whole activations go in parts, one from each rank of the tensor group, where rows
// allow.
bool StageLowering::sends_parts(int tensor) const {
  return plan_.parallelism.pipeline_scatter_gather && plan_.parallelism.tensor > 1 &&
         graph_.held == Held::whole &&
         graph_.tensor(tensor).type.shape[0] % plan_.parallelism.tensor == 0;
}

Operand StageLowering::part_for_send(Operand whole) const {
  whole.type.shape[0] /= plan_.parallelism.tensor;
  whole.part_of = GroupKind::tensor;
  return whole;
}

Operand StageLowering::operand(int tensor, int stage) {
  const Tensor& wanted = graph_.tensor(tensor);
  if (wanted.role == Role::input) {
    const auto inputs = inputs_of(graph_);
    const auto which = std::ranges::find(inputs, tensor) - inputs.begin();
    return {input_buffer_[at(static_cast<int>(which))], 0, wanted.type, GroupKind::none};
  }
  if (wanted.role == Role::activation)
    return boundaries_.tensors[at(tensor)].maker == stage ? places_.own[at(tensor)]
                                                          : places_.received[at(tensor)];
  const StageParameter& member = program_.parameters[at(member_of_[at(wanted.parameter)])];
  const BucketPlan& planned = buckets_[at(member.bucket)];
  const bool is_weight = wanted.role == Role::parameter;
  Operand found = is_weight ? planned.bucket.weights : planned.bucket.gradients;
  const bool in_unit_buffer = is_weight ? planned.zero == 3 : planned.zero >= 2;
  if (in_unit_buffer) {
    found.buffer = (is_weight ? gathered_ : unit_gradients_).of(planned.unit);
    MESHWRIGHT_CHECK(found.buffer >= 0, "a sharded unit is gathered before it is used");
    found.offset += planned.offset * bytes_of(wanted.type.dtype);
  }
  found.offset += member.offset * bytes_of(wanted.type.dtype);
  found.type = wanted.type;
  return found;
}

Operand StageLowering::place_output(int tensor, int stage) {
  const Tensor& made = graph_.tensor(tensor);
  Operand& place = places_.own[at(tensor)];
  if (made.alias_of >= 0) {
    place = operand(made.alias_of, stage);
    place.type = made.type;
    return place;
  }
  const int becomes = reduced_into_[at(tensor)];
  if (becomes >= 0) {  // the in-place all-reduce that follows decides where
    place = place_output(becomes, stage);
    return place;
  }
  if (place.buffer >= 0) return place;  // placed by the partial sum it is reduced from
  const TensorFlow& flow = boundaries_.tensors[at(tensor)];
  const int chunk = layout_.chunk_of(stage);
  const std::string_view name = info(graph_.nodes[at(made.producer)].op).name;
  int id;
  if (const Offloaded* each = find_offloaded(tensor, stage))
    id = each->device;
  else if (flow.kept)
    id = add_buffer(name, MemoryClass::activations, Region::slot, made.type.bytes(), chunk);
  else if (flow.crosses_forward || flow.crosses_backward)
    id = add_buffer(name, MemoryClass::communication, Region::persistent, made.type.bytes());
  else
    id = add_buffer(name, MemoryClass::workspace, Region::task, made.type.bytes());
  place = {id, 0, made.type, GroupKind::none};
  return place;
}

int StageLowering::emit_node(BodyBuilder& body, const Node& node, int stage) {
  if (node.op == Op::tensor_copy) {  // a view
    places_.own[at(node.outputs[0])] = operand(node.inputs[0], stage);
    return -1;
  }
  Instruction instruction;
  instruction.op = node.op;
  instruction.module = node.module;
  instruction.phase = node.phase;
  instruction.attributes = node.attributes;
  for (int id : node.inputs) instruction.inputs.push_back(operand(id, stage));
  if (takes_loss_scale(node) && program_.loss_scale_buffer >= 0)
    instruction.inputs.push_back(
        {program_.loss_scale_buffer, 0, {Shape{1}, Dtype::f32}, GroupKind::none});
  for (int id : node.outputs)
    instruction.outputs.push_back(
        graph_.tensor(id).role == Role::activation ? place_output(id, stage) : operand(id, stage));
  if (!info(node.op).is_communication) return body.emit(std::move(instruction));
  const Communication over = communication_of(node.op);
  instruction.kind = over.kind;
  instruction.stream = over.stream;
  instruction.group = over.group;
  const int index = body.emit(std::move(instruction));
  if (over.group == GroupKind::tensor && !plan_.parallelism.overlap_tensor)
    body.join_before_next_compute(index);
  return index;
}

void StageLowering::receive(BodyBuilder& body, int stage, bool backward) {
  const int from = backward ? stage + 1 : stage - 1;
  const int chunk = layout_.chunk_of(stage);
  int channel = 0;
  for (std::size_t id = 0; id < boundaries_.tensors.size(); ++id) {
    const TensorFlow& flow = boundaries_.tensors[id];
    if (flow.maker != from || !(backward ? flow.crosses_backward : flow.crosses_forward)) continue;
    const TensorType& type = graph_.tensors[id].type;
    const Offloaded* each = backward ? nullptr : find_offloaded(static_cast<int>(id), stage);
    const bool in_slot = !backward || flow.kept_by_previous;
    const std::string_view name = backward ? "recv_gradient" : "recv_activation";
    const int buffer_id =
        each      ? each->device
        : in_slot ? add_buffer(name, MemoryClass::activations, Region::slot, type.bytes(), chunk)
                  : add_buffer(name, MemoryClass::communication, Region::persistent, type.bytes());
    const Operand whole{buffer_id, 0, type, GroupKind::none};
    places_.received[id] = whole;
    const bool parts = sends_parts(static_cast<int>(id));
    Instruction recv;
    recv.kind = InstructionKind::recv;
    recv.stream = Stream::pipe_recv;
    recv.peer = layout_.stage_of(from);
    recv.peer_chunk = layout_.chunk_of(from);
    recv.channel = channel++;
    recv.outputs = {parts ? part_for_send(whole) : whole};
    recv.phase = backward ? Phase::backward : Phase::forward;
    // Until its last user of an earlier micro-batch is through.
    recv.waits.push_back(in_slot ? Wait{Wait::Relation::latest_with_slot, last_body(chunk), -1}
                                 : Wait{Wait::Relation::latest, backward_body(chunk), -1});
    body.emit(recv);
    if (parts) gather_parts(body, recv, whole);
    if (each) copy_out_if_offloaded(body, static_cast<int>(id));
  }
}

void StageLowering::gather_parts(BodyBuilder& body, const Instruction& recv, const Operand& whole) {
  Instruction gather;
  gather.kind = InstructionKind::all_gather;
  gather.stream = Stream::tensor_comm;
  gather.group = GroupKind::tensor;
  gather.phase = recv.phase;
  gather.inputs = recv.outputs;
  gather.outputs = {whole};
  body.emit(std::move(gather));
}

void StageLowering::load_inputs(BodyBuilder& body, int stage) {
  const int chunk = layout_.chunk_of(stage);
  const auto inputs = inputs_of(graph_);
  for (int which = 0; which < input_channels; ++which) {
    const int tensor = inputs[at(which)];
    if (tensor < 0) continue;
    const auto& nodes = boundaries_.nodes[at(stage)];
    const bool used = std::any_of(nodes.begin(), nodes.end(), [&](int index) {
      const TensorIds& ids = graph_.nodes[at(index)].inputs;
      return std::find(ids.begin(), ids.end(), tensor) != ids.end();
    });
    if (!used) continue;
    const TensorType& type = graph_.tensor(tensor).type;
    input_buffer_[at(which)] =
        add_buffer("input", MemoryClass::activations, Region::slot, type.bytes(), chunk);
    Instruction load;
    load.kind = InstructionKind::load_input;
    load.channel = which;
    if (graph_.input_parts > 1) load.group = GroupKind::tensor;
    load.outputs = {operand(tensor, stage)};
    body.emit(std::move(load));
  }
}

// The producer waits until the message of an earlier micro-batch has left the buffer.
void StageLowering::emit_send(BodyBuilder& body, int tensor, int producer, int stage,
                              bool backward) {
  const Operand whole = places_.own[at(tensor)];
  Instruction send;
  send.kind = InstructionKind::send;
  send.stream = Stream::pipe_send;
  const int to = backward ? stage - 1 : stage + 1;
  send.peer = layout_.stage_of(to);
  send.peer_chunk = layout_.chunk_of(to);
  send.phase = backward ? Phase::backward : Phase::forward;
  for (int id = 0; id < tensor; ++id) {
    const TensorFlow& flow = boundaries_.tensors[at(id)];
    if (flow.maker == stage && (backward ? flow.crosses_backward : flow.crosses_forward))
      ++send.channel;
  }
  send.inputs = {sends_parts(tensor) ? part_for_send(whole) : whole};
  const int index = body.emit(std::move(send));
  const int chunk = layout_.chunk_of(stage);
  const bool in_slot = buffer(whole.buffer).region == Region::slot;
  const Wait emptied{in_slot ? Wait::Relation::latest_with_slot : Wait::Relation::latest,
                     backward ? backward_body(chunk) : forward_body(chunk), index};
  for (int i = 0; i <= producer; ++i) {
    Instruction& writer = body.body().instructions[at(i)];
    const bool writes = std::any_of(writer.outputs.begin(), writer.outputs.end(),
                                    [&](const Operand& o) { return o.buffer == whole.buffer; });
    if (!writes) continue;
    writer.waits.push_back(emptied);
    break;
  }
}

// What this node was the last to add to.
void StageLowering::reduce_what_is_ready(BodyBuilder& body, int node) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketPlan& planned = buckets_[b];
    if (planned.ready_node != node) continue;
    if (planned.zero >= 2) {
      if (planned.unit != shared_unit) reduce_unit_bucket(body, static_cast<int>(b));
    } else if (plan_.parallelism.overlap_gradients && !planned.cls.tied) {
      bucket_done_[b] = {body.number(),
                         reduce_bucket(body, static_cast<int>(b), When::last_micro_batch)};
    }
  }
}

void StageLowering::write_nodes(BodyBuilder& body, int stage) {
  const bool backward = body.body().kind != Body::Kind::forward;
  std::vector<int> nodes;
  for (int index : boundaries_.nodes[at(stage)])
    if (boundaries_.body[at(index)] == body.body().kind) nodes.push_back(index);
  const std::vector<int> units = units_in_order(stage, body.body().kind);
  int position = -1;
  for (int index : nodes) {
    const Node& node = graph_.nodes[at(index)];
    const int unit = graph_.unit_of(node);
    if (position < 0 || units[at(position)] != unit)
      enter_unit(body, units, at(++position), backward);
    const int emitted = emit_node(body, node, stage);
    for (int id : node.outputs) {
      const TensorFlow& flow = boundaries_.tensors[at(id)];
      if (graph_.tensor(id).role == Role::activation &&
          (backward ? flow.crosses_backward : flow.crosses_forward))
        emit_send(body, id, emitted, stage, backward);
      if (!backward) copy_out_if_offloaded(body, id);
    }
    if (backward) load_layer_after(body, index);
    if (backward) reduce_what_is_ready(body, index);
  }
  if (position >= 0 && backward) reduce_shared_unit(body);
}

// Of the losses, the targets' and those that balance experts, the ones that this body makes.
void StageLowering::sum_losses(BodyBuilder& body, int stage) {
  std::vector<int> losses;
  for (int index : boundaries_.nodes[at(stage)]) {
    const Node& node = graph_.nodes[at(index)];
    if (node.op == Op::route && node.phase == Phase::forward && node.attributes.balance > 0)
      losses.push_back(node.outputs[2]);
  }
  if (graph_.loss >= 0) losses.push_back(graph_.loss);
  for (int loss : losses) {
    const TensorFlow& flow = boundaries_.tensors[at(loss)];
    if (flow.maker != stage || flow.made_in != body.body().kind) continue;
    Instruction sum;
    sum.op = Op::sum_loss;
    sum.inputs = {operand(loss, stage)};
    sum.outputs = {{program_.loss_buffer, 0, {Shape{1}, Dtype::f64}, GroupKind::none}};
    body.emit(std::move(sum));
  }
}

void StageLowering::write_forward(int chunk) {
  const int stage = virtual_stage(chunk);
  program_.bodies[at(forward_body(chunk))] = {Body::Kind::forward, chunk, {}};
  BodyBuilder body(program_, forward_body(chunk));
  receive(body, stage, false);
  load_inputs(body, stage);
  write_nodes(body, stage);
  sum_losses(body, stage);
  body.finish();
}

void StageLowering::write_backward(int chunk, Body::Kind kind) {
  const int index = kind == Body::Kind::weights ? last_body(chunk) : backward_body(chunk);
  program_.bodies[at(index)] = {kind, chunk, {}};
  BodyBuilder body(program_, index);
  if (kind == Body::Kind::backward) receive(body, virtual_stage(chunk), true);
  if (kind == Body::Kind::backward) load_last_layers(body);
  write_nodes(body, virtual_stage(chunk));
  sum_losses(body, virtual_stage(chunk));
  body.finish();
}

}  // namespace meshwright
