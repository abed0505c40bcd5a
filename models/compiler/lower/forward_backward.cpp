#include "models/compiler/lower/forward_backward.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/instruction_of.h"
#include "models/compiler/lower/memory.h"
#include "models/compiler/lower/messages.h"
#include "models/compiler/lower/operands.h"
#include "models/compiler/lower/reductions.h"
#include "models/compiler/lower/tensor_chunks.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

bool reads(const StageDraft& draft, int virtual_stage, int tensor) {
  return std::ranges::any_of(draft.boundaries.nodes[virtual_stage], [&](int index) {
    const TensorIds& ids = draft.graph.nodes[index].inputs;
    return std::ranges::find(ids, tensor) != ids.end();
  });
}

struct Input {
  int channel, tensor;
};

std::vector<Input> inputs_of(const Graph& graph) {
  std::vector<Input> inputs;
  for (int tensor :
       {graph.tokens, graph.targets, graph.positions, graph.decoder_tokens, graph.documents})
    inputs.push_back({static_cast<int>(inputs.size()), tensor});
  MESHWRIGHT_CHECK(std::ssize(inputs) == first_channel_ahead, "every channel is listed");
  const int documents = inputs.back().channel;
  for (const TokenAhead& each : graph.ahead)
    for (int tensor : {each.tokens, each.targets})
      inputs.push_back({static_cast<int>(inputs.size()), tensor});
  inputs.push_back({documents, graph.exchanged_documents});
  for (int channel = first_captured_channel; int tensor : graph.captured)
    inputs.push_back({channel++, tensor});
  return inputs;
}

void load_inputs(StageDraft& draft, BodyBuilder& body) {
  const Graph& graph = draft.graph;
  for (const auto [channel, tensor] : inputs_of(graph)) {
    const int virtual_stage = draft.virtual_stage(body.chunk());
    if (tensor < 0 || !reads(draft, virtual_stage, tensor)) continue;
    const TensorType& type = graph.tensor(tensor).type;
    const int buffer = add_buffer(draft, "input", MemoryClass::activations, Region::slot,
                                  type.bytes(), body.chunk());
    const Operand place{buffer, 0, type, GroupKind::none};
    draft.places.loaded[{tensor, virtual_stage}] = place;
    Instruction load;
    load.kind = InstructionKind::load_input;
    load.channel = channel;
    const bool is_documents = tensor == graph.documents || tensor == graph.exchanged_documents;
    if (graph.input_parts > 1 && !is_documents) load.group = GroupKind::tensor;
    load.outputs = {place};
    body.emit(std::move(load));
  }
}

// Writes a node, and returns the index of its instruction. Returns -1 if the body gets no
// instruction: for a view, and for a node that runs once a step.
int write_node(StageDraft& draft, BodyBuilder& body, const Node& node) {
  const int virtual_stage = draft.virtual_stage(body.chunk());
  if (node.op == Op::tensor_copy) {
    draft.places.own[node.outputs[0]] = operand(draft, node.inputs[0], virtual_stage);
    return -1;
  }
  Instruction instruction = instruction_of(draft, node, virtual_stage);
  if (is_of_step(draft.graph, node)) {
    draft.of_step.push_back(std::move(instruction));
    return -1;
  }
  const bool joins = instruction.kind != InstructionKind::compute &&
                     instruction.group == GroupKind::tensor &&
                     !draft.plan.parallelism.overlap_tensor;
  const int index = body.emit(std::move(instruction));
  if (joins) body.join_before_next_compute(index);
  return index;
}

// Counts the choices of a forward router, if they are counted. Recomputed routers, and routers that
// only balance, are not counted.
void count_choices(StageDraft& draft, BodyBuilder& body, const Node& node) {
  if (node.op != Op::route || node.phase != Phase::forward) return;
  if (only_balances(node.attributes)) return;
  const auto first = draft.first_count.find(node.module);
  if (first == draft.first_count.end()) return;
  const int virtual_stage = draft.virtual_stage(body.chunk());
  Instruction count;
  count.op = Op::count_choices;
  count.module = node.module;
  count.attributes = node.attributes;
  count.inputs = {operand(draft, node.outputs[1], virtual_stage)};
  if (is_dropless(node.attributes))
    count.inputs.push_back(operand(draft, node.outputs[3], virtual_stage));
  count.outputs = {{draft.program.choice_counts_buffer,
                    first->second * bytes_of(Dtype::f64),
                    {Shape{node.attributes.experts}, Dtype::f64},
                    GroupKind::none}};
  body.emit(std::move(count));
}

void write_nodes(StageDraft& draft, BodyBuilder& body) {
  const Graph& graph = draft.graph;
  const Boundaries& boundaries = draft.boundaries;
  const bool backward = body.is_backward();
  const Body::Kind kind = body.body().kind;
  const int virtual_stage = draft.virtual_stage(body.chunk());
  const std::vector<int> units = units_in_order(graph, boundaries, virtual_stage, kind);
  TensorChunks chunks(draft, body);
  int position = -1;
  for (int index : boundaries.nodes[virtual_stage]) {
    if (boundaries.body[index] != kind) continue;
    const Node& node = graph.nodes[index];
    if (position < 0 || units[position] != graph.unit_of(node))
      enter_unit(draft, body, units, ++position);
    const std::optional<int> written = chunks.write(index);
    const int emitted = written ? *written : write_node(draft, body, node);
    count_choices(draft, body, node);
    for (int id : node.outputs) {
      if (graph.tensor(id).role == Role::activation && boundaries.tensors[id].crosses(backward))
        send(draft, body, id, emitted);
      if (!backward) copy_out_if_offloaded(draft, body, id);
    }
    if (backward) load_layer_after(draft, body, index);
    if (backward) reduce_what_is_ready(draft, body, index);
  }
  if (position >= 0 && backward) finish_units(draft, body);
}

// Adds the losses that this body makes to the sums of the step. The loss of the targets and the
// losses that balance experts go to one sum, and each loss of multi-token prediction to a sum of
// its own.
void sum_losses(StageDraft& draft, BodyBuilder& body) {
  const int virtual_stage = draft.virtual_stage(body.chunk());
  const Program& program = draft.program;
  struct Summed {
    int loss = -1, into = -1;
    std::int64_t place = 0;
  };
  std::vector<Summed> losses;
  for (int index : draft.boundaries.nodes[virtual_stage]) {
    const Node& node = draft.graph.nodes[index];
    if (const int loss = balancing_loss(draft.graph, node); loss >= 0)
      losses.push_back({loss, program.loss_buffer});
  }
  if (draft.graph.loss >= 0) losses.push_back({draft.graph.loss, program.loss_buffer});
  for (std::int64_t place = 0; const TokenAhead& each : draft.graph.ahead)
    losses.push_back({each.loss, program.mtp_loss_buffer, place++});
  for (const auto& [loss, into, place] : losses) {
    const TensorFlow& flow = draft.boundaries.tensors[loss];
    if (flow.maker != virtual_stage || flow.made_in != body.body().kind) continue;
    Instruction sum;
    sum.op = Op::sum_loss;
    sum.inputs = {operand(draft, loss, virtual_stage)};
    sum.outputs = {{into, place * bytes_of(Dtype::f64), {Shape{1}, Dtype::f64}, GroupKind::none}};
    body.emit(std::move(sum));
  }
}

}  // namespace

void write_forward(StageDraft& draft, int chunk) {
  BodyBuilder body(draft.program, draft.forward_body(chunk), Body::Kind::forward, chunk);
  receive(draft, body);
  load_inputs(draft, body);
  write_nodes(draft, body);
  sum_losses(draft, body);
  body.finish();
}

void write_backward(StageDraft& draft, int chunk) {
  BodyBuilder body(draft.program, draft.backward_body(chunk), Body::Kind::backward, chunk);
  receive(draft, body);
  load_last_layers(draft, body);
  write_nodes(draft, body);
  sum_losses(draft, body);  // fuse_loss makes the loss in the backward, so it may be here
  body.finish();
}

void write_weights(StageDraft& draft, int chunk) {
  BodyBuilder body(draft.program, draft.last_body(chunk), Body::Kind::weights, chunk);
  write_nodes(draft, body);
  sum_losses(draft, body);
  body.finish();
}

}  // namespace meshwright::compiler
