#include "models/compiler/lower/offload.h"

#include <algorithm>
#include <array>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"

namespace meshwright::compiler {

namespace {

bool uses(const std::vector<Operand>& operands, int buffer) {
  return std::ranges::any_of(operands, [&](const Operand& o) { return o.buffer == buffer; });
}

void wait(Instruction& instruction, Wait::Relation relation, int body, int on) {
  instruction.waits.push_back({relation, body, on});
}

// Returns the tensor that a chain of views refers to, or `tensor` if it is no view.
int base_of(const Graph& graph, int tensor) {
  for (;;) {
    const int producer = graph.tensor(tensor).producer;
    if (producer < 0 || graph.nodes[producer].op != Op::tensor_copy) return tensor;
    tensor = graph.nodes[producer].inputs[0];
  }
}

bool held_from_forward(const TensorFlow& flow, int virtual_stage) {
  if (flow.made_in_backward()) return false;
  if (flow.maker == virtual_stage) return flow.kept && !flow.crosses_forward;
  return flow.maker == virtual_stage - 1 && flow.kept_by_next;
}

// Returns the tensors that are held from the forward body on and that recomputed operations of this
// virtual stage read, in ascending order of their ids. Each comes with the last node that reads it.
std::vector<Offloaded> checkpoints_of(const StageDraft& draft, int virtual_stage) {
  const Graph& graph = draft.graph;
  std::vector<int> last_reader(graph.tensors.size(), -1);
  std::vector<char> checkpointed(graph.tensors.size(), 0);
  for (int index : draft.boundaries.nodes[virtual_stage]) {
    const Node& node = graph.nodes[index];
    if (node.phase == Phase::forward) continue;
    for (int id : node.inputs) {
      const int base = base_of(graph, id);
      last_reader[base] = index;
      if (node.phase == Phase::recompute) checkpointed[base] = 1;
    }
  }
  std::vector<Offloaded> chosen;
  for (int id = 0; id < static_cast<int>(graph.tensors.size()); ++id) {
    if (!checkpointed[id] || graph.tensor(id).role != Role::activation ||
        !held_from_forward(draft.boundaries.tensors[id], virtual_stage))
      continue;
    Offloaded& each = chosen.emplace_back();
    each.tensor = id;
    each.last_reader = last_reader[id];
  }
  return chosen;
}

// Returns whether everything large that blocks save is offloaded. This is so for `layers` without
// recomputation.
bool offloads_whole_blocks(const Plan& plan) {
  return plan.parallelism.offload == Offload::layers &&
         plan.training.recompute == Recompute::none && plan.training.recompute_modules.empty();
}

// The least number of layers on the device: while a layer makes the next one's input, both are
// there.
constexpr int layers_in_turn = 2;

// Returns for each unit whether it is one of the first blocks of a virtual stage, whose activations
// are offloaded. At any time, the activations of at most `offload_horizon` blocks, at least two,
// are on the device: those of two blocks share the ring, and the others are those of the last
// blocks, with which the backward begins.
std::vector<char> first_blocks(const StageDraft& draft, int virtual_stage) {
  const Graph& graph = draft.graph;
  std::vector<int> blocks;
  for (int unit : units_in_order(graph, draft.boundaries, virtual_stage, Body::Kind::forward))
    if (graph.units[unit].is_block) blocks.push_back(unit);
  const int on_device = std::max(layers_in_turn, draft.plan.parallelism.horizon());
  const int count = static_cast<int>(blocks.size()) - on_device + layers_in_turn;
  std::vector<char> chosen(graph.units.size(), 0);
  for (int i = 0; i < count; ++i) chosen[blocks[i]] = 1;
  return chosen;
}

int unit_of(const StageDraft& draft, const Offloaded& each) {
  return draft.graph.unit_of(draft.graph.nodes[draft.graph.tensor(each.tensor).producer]);
}

// Returns the tensors that the first blocks save, in the order in which they are made. Leaves out
// tensors with less than a hundredth of the bytes of the largest one, because they are not worth a
// copy, and tensors that share memory.
std::vector<Offloaded> kept_by_first_blocks(const StageDraft& draft, int virtual_stage) {
  constexpr std::int64_t much_smaller = 100;
  const Graph& graph = draft.graph;
  const std::vector<char> wanted = first_blocks(draft, virtual_stage);
  std::vector<int> last_reader(graph.tensors.size(), -1);
  for (int index : draft.boundaries.nodes[virtual_stage])
    if (const Node& node = graph.nodes[index]; node.phase != Phase::forward)
      for (int id : node.inputs) last_reader[base_of(graph, id)] = index;
  std::vector<char> shared(graph.tensors.size(), 0);  // has memory in common with another
  for (std::size_t id = 0; id < graph.tensors.size(); ++id)
    if (const int other = graph.tensors[id].alias_of; other >= 0) shared[id] = shared[other] = 1;
  std::vector<Offloaded> chosen;
  std::int64_t largest = 0;
  for (int id = 0; id < static_cast<int>(graph.tensors.size()); ++id) {
    const Tensor& tensor = graph.tensor(id);
    const TensorFlow& flow = draft.boundaries.tensors[id];
    if (tensor.role != Role::activation || tensor.producer < 0 || shared[id] ||
        last_reader[id] < 0 || flow.maker != virtual_stage ||
        !held_from_forward(flow, virtual_stage))
      continue;
    Offloaded each;
    each.tensor = id;
    each.last_reader = last_reader[id];
    if (!wanted[unit_of(draft, each)]) continue;
    chosen.push_back(each);
    largest = std::max(largest, tensor.type.bytes());
  }
  std::erase_if(chosen, [&](const Offloaded& each) {
    return graph.tensor(each.tensor).type.bytes() * much_smaller < largest;
  });
  std::ranges::sort(chosen, {},
                    [&](const Offloaded& each) { return graph.tensor(each.tensor).producer; });
  return chosen;
}

// Returns the number of buffers in the ring: one for each layer input of the horizon, at least two.
// If everything that blocks save is offloaded, it is twice the number of tensors of the block that
// saves most of them.
std::size_t places_in_ring(const StageDraft& draft) {
  if (!offloads_whole_blocks(draft.plan))
    return std::max<std::size_t>(layers_in_turn, draft.plan.parallelism.horizon());
  std::size_t most = 0;
  for (const std::vector<Offloaded>& all : draft.offloads.of_chunk) {
    std::vector<std::size_t> of_unit(draft.graph.units.size(), 0);
    for (const Offloaded& each : all) most = std::max(most, ++of_unit[unit_of(draft, each)]);
  }
  return layers_in_turn * most;
}

// Returns the buffer of the ring for the tensor that is the `order`-th of its chunk. Adds the
// buffer if it is new, and enlarges it to `bytes`.
int place_in_ring(StageDraft& draft, std::size_t order, std::size_t places, std::int64_t bytes) {
  std::vector<int>& ring = draft.offloads.ring;
  if (ring.size() < places)
    ring.push_back(add_buffer(draft, "ring", MemoryClass::activations, Region::persistent, 0));
  Buffer& place = draft.buffer(ring[order % places]);
  place.bytes = std::max(place.bytes, bytes);
  return ring[order % places];
}

void place_offloaded(StageDraft& draft, int chunk, std::size_t places) {
  std::vector<Offloaded>& all = draft.offloads.of_chunk[chunk];
  for (std::size_t order = 0; order < all.size(); ++order) {
    Offloaded& each = all[order];
    const std::int64_t bytes = draft.graph.tensor(each.tensor).type.bytes();
    each.host =
        add_buffer(draft, "offloaded", MemoryClass::activations, Region::host, bytes, chunk);
    each.device =
        offloads_layers(draft.plan)
            ? place_in_ring(draft, order, places, bytes)
            : add_buffer(draft, "window", MemoryClass::activations, Region::window, bytes, chunk);
  }
}

void emit_copy(StageDraft& draft, BodyBuilder& body, Offloaded& each, bool out) {
  const TensorType& type = draft.graph.tensor(each.tensor).type;
  Instruction copy;
  copy.kind = out ? InstructionKind::copy_out : InstructionKind::copy_in;
  copy.stream = out ? Stream::copy_out : Stream::copy_in;
  copy.when = out && offloads_tasks(draft.plan) ? When::offloaded : When::always;
  copy.phase = out ? Phase::forward : Phase::backward;
  copy.inputs = {{out ? each.device : each.host, 0, type, GroupKind::none}};
  copy.outputs = {{out ? each.host : each.device, 0, type, GroupKind::none}};
  if (!out)
    wait(copy, Wait::Relation::latest_with_slot, draft.forward_body(body.chunk()), each.copy_out);
  (out ? each.copy_out : each.copy_in) = body.emit(std::move(copy));
}

// Visits, for every stream, the first instruction that writes to the buffer or, if not `writers`,
// that reads it.
template <class Visit>
void for_first_users(Body& body, int buffer, bool writers, const Visit& visit) {
  std::array<bool, stream_count> seen{};
  for (Instruction& instruction : body.instructions) {
    bool& before = seen[static_cast<std::size_t>(instruction.stream)];
    if (before || !uses(writers ? instruction.outputs : instruction.inputs, buffer)) continue;
    before = true;
    visit(instruction);
  }
}

// Makes `writer` wait until the former content of a window, or of a buffer in the ring, has been
// copied out and read. Writers on the compute stream need not wait for the reads, which come before
// them in that stream.
void wait_until_free(const StageDraft& draft, Instruction& writer, Wait::Relation relation,
                     int chunk, int copy_out) {
  wait(writer, relation, draft.forward_body(chunk), copy_out);
  if (writer.stream == Stream::compute) return;
  wait(writer, relation, draft.forward_body(chunk), -1);
  wait(writer, relation, draft.backward_body(chunk), -1);
}

void wait_for_windows(StageDraft& draft, int chunk) {
  const auto body = [&](int number) -> Body& { return draft.program.bodies[number]; };
  for (const Offloaded& each : draft.offloads.of_chunk[chunk]) {
    const auto guard = [&](Instruction& writer) {
      wait_until_free(draft, writer, Wait::Relation::latest_with_window, chunk, each.copy_out);
    };
    for_first_users(body(draft.forward_body(chunk)), each.device, true, guard);
    for_first_users(body(draft.load_body(chunk)), each.device, true, guard);
    for_first_users(body(draft.backward_body(chunk)), each.device, false, [&](Instruction& reader) {
      wait(reader, Wait::Relation::latest_with_slot, draft.load_body(chunk), each.copy_in);
    });
  }
}

// Returns the last instruction of a chunk's forward body that copies a buffer of the ring out, or
// -1 if that body uses other buffers only.
int last_copy_out(const StageDraft& draft, int chunk, int place) {
  int last = -1;
  for (const Offloaded& each : draft.offloads.of_chunk[chunk])
    if (each.device == place) last = each.copy_out;
  return last;
}

// Makes the writers to a buffer of the ring wait until it is free. Bodies of all chunks share the
// ring.
void wait_for_place(StageDraft& draft, int place) {
  const auto guard = [&](Instruction& writer) {
    for (int other = 0; other < draft.chunks(); ++other) {
      const int last = last_copy_out(draft, other, place);
      if (last >= 0) wait_until_free(draft, writer, Wait::Relation::latest, other, last);
    }
  };
  for (int chunk = 0; chunk < draft.chunks(); ++chunk)
    for (const int body : {draft.forward_body(chunk), draft.backward_body(chunk)})
      for_first_users(draft.program.bodies[body], place, true, guard);
}

}  // namespace

bool offloads_tasks(const Plan& plan) { return plan.parallelism.offload == Offload::activations; }
bool offloads_layers(const Plan& plan) { return plan.parallelism.offload == Offload::layers; }

void choose_offloaded(StageDraft& draft) {
  draft.offloads.of_chunk.resize(draft.chunks());
  if (!offloads_tasks(draft.plan) && !offloads_layers(draft.plan)) return;
  const auto choose = offloads_whole_blocks(draft.plan) ? kept_by_first_blocks : checkpoints_of;
  for (int chunk = 0; chunk < draft.chunks(); ++chunk)
    draft.offloads.of_chunk[chunk] = choose(draft, draft.virtual_stage(chunk));
  const std::size_t places = places_in_ring(draft);
  for (int chunk = 0; chunk < draft.chunks(); ++chunk) place_offloaded(draft, chunk, places);
}

const Offloaded* find_offloaded(const StageDraft& draft, int tensor, int chunk) {
  for (const Offloaded& each : draft.offloads.of_chunk[chunk])
    if (each.tensor == tensor) return &each;
  return nullptr;
}

// Copies the tensor to the host if it is offloaded, after the instruction that makes or receives
// it.
void copy_out_if_offloaded(StageDraft& draft, BodyBuilder& body, int tensor) {
  for (Offloaded& each : draft.offloads.of_chunk[body.chunk()])
    if (each.tensor == tensor) emit_copy(draft, body, each, true);
}

// Writes the load body of a chunk: loads all offloaded activations of a micro-batch, the last one
// made first, which is about the order in which the backward body reads them.
void write_load(StageDraft& draft, int chunk) {
  BodyBuilder body(draft.program, draft.load_body(chunk), Body::Kind::load, chunk);
  std::vector<Offloaded>& all = draft.offloads.of_chunk[chunk];
  for (auto each = all.rbegin(); each != all.rend(); ++each) emit_copy(draft, body, *each, false);
}

void load_last_layers(StageDraft& draft, BodyBuilder& body) {
  if (!offloads_layers(draft.plan)) return;
  std::vector<Offloaded>& all = draft.offloads.of_chunk[body.chunk()];
  const std::size_t count = std::min(all.size(), draft.offloads.ring.size());
  for (std::size_t i = all.size(); i-- > all.size() - count;) emit_copy(draft, body, all[i], false);
}

void load_layer_after(StageDraft& draft, BodyBuilder& body, int node) {
  if (!offloads_layers(draft.plan)) return;
  std::vector<Offloaded>& all = draft.offloads.of_chunk[body.chunk()];
  const std::size_t places = draft.offloads.ring.size();
  for (std::size_t i = places; i < all.size(); ++i)
    if (all[i].last_reader == node) emit_copy(draft, body, all[i - places], false);
}

void wait_for_offloaded(StageDraft& draft) {
  for (const int place : draft.offloads.ring) wait_for_place(draft, place);
  if (!offloads_tasks(draft.plan)) return;
  for (int chunk = 0; chunk < draft.chunks(); ++chunk) wait_for_windows(draft, chunk);
}

}  // namespace meshwright::compiler
