// Offloading: checkpointed activations wait in host memory from the forward to the backward task.
//
// `activations` (tasks): what a micro-batch keeps lies in one of a few windows of device memory; it
// goes out as it is made, and the window is free two pipeline tasks later. A task of its own brings
// it back into a window `offload_horizon` pipeline tasks before the backward one.
// `layers`: the inputs of a stage's layers take turns in a ring of `offload_horizon` places, in the
// forward and in the backward body.
#include <algorithm>

#include "models/core/error.h"
#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool uses(const std::vector<Operand>& operands, int buffer) {
  return std::ranges::any_of(operands, [&](const Operand& o) { return o.buffer == buffer; });
}

void wait(Instruction& instruction, Wait::Relation relation, int body, int on) {
  instruction.waits.push_back({relation, body, on});
}

}  // namespace

bool StageLowering::offloads_layers() const { return plan_.parallelism.offload == "layers"; }

const StageLowering::Offloaded* StageLowering::find_offloaded(int tensor, int stage) const {
  for (const Offloaded& each : offloaded_[at(layout_.chunk_of(stage))])
    if (each.tensor == tensor) return &each;
  return nullptr;
}

// The tensor that a chain of views looks at.
int StageLowering::base_of(int tensor) const {
  for (;;) {
    const int producer = graph_.tensor(tensor).producer;
    if (producer < 0 || graph_.nodes[at(producer)].op != Op::tensor_copy) return tensor;
    tensor = graph_.nodes[at(producer)].inputs[0];
  }
}

// What the repeated operations of this virtual stage read and its forward body holds, in the order
// in which it is made, with the last node that reads it.
void StageLowering::choose_offloaded(int chunk) {
  const int stage = virtual_stage(chunk);
  std::vector<Offloaded>& chosen = offloaded_[at(chunk)];
  std::vector<int> last_reader(graph_.tensors.size(), -1);
  std::vector<char> checkpointed(graph_.tensors.size(), 0);
  for (int index : boundaries_.nodes[at(stage)]) {
    const Node& node = graph_.nodes[at(index)];
    if (node.phase == Phase::forward) continue;
    for (int id : node.inputs) {
      const int base = base_of(id);
      last_reader[at(base)] = index;
      if (node.phase == Phase::recompute) checkpointed[at(base)] = 1;
    }
  }
  for (int id = 0; id < static_cast<int>(graph_.tensors.size()); ++id) {
    const TensorFlow& flow = boundaries_.tensors[at(id)];
    const bool held = flow.maker == stage ? flow.kept && !flow.crosses_forward
                                          : flow.maker == stage - 1 && flow.kept_by_next;
    if (!checkpointed[at(id)] || !held || flow.made_in_backward() ||
        graph_.tensor(id).role != Role::activation)
      continue;
    Offloaded each;
    each.tensor = id;
    each.last_reader = last_reader[at(id)];
    chosen.push_back(each);
  }
  for (Offloaded& each : chosen) place_offloaded(each, chunk);
}

void StageLowering::place_offloaded(Offloaded& each, int chunk) {
  const std::int64_t bytes = graph_.tensor(each.tensor).type.bytes();
  each.host = add_buffer("offloaded", MemoryClass::activations, Region::host, bytes, chunk);
  if (!offloads_layers()) {
    each.device = add_buffer("window", MemoryClass::activations, Region::window, bytes, chunk);
    return;
  }
  // While a layer makes the next one's input, both are there.
  const std::size_t places = std::max<std::size_t>(2, at(plan_.parallelism.horizon()));
  if (ring_.size() < places)
    ring_.push_back(add_buffer("ring", MemoryClass::activations, Region::persistent, 0));
  const std::size_t order = static_cast<std::size_t>(&each - offloaded_[at(chunk)].data());
  each.device = ring_[order % places];
  buffer(each.device).bytes = std::max(buffer(each.device).bytes, bytes);
}

void StageLowering::emit_copy(BodyBuilder& body, Offloaded& each, bool out) {
  const TensorType& type = graph_.tensor(each.tensor).type;
  Instruction copy;
  copy.kind = out ? InstructionKind::copy_out : InstructionKind::copy_in;
  copy.stream = out ? Stream::copy_out : Stream::copy_in;
  copy.when = out && !offloads_layers() ? When::offloaded : When::always;
  copy.phase = out ? Phase::forward : Phase::backward;
  copy.inputs = {{out ? each.device : each.host, 0, type, GroupKind::none}};
  copy.outputs = {{out ? each.host : each.device, 0, type, GroupKind::none}};
  if (!out)
    wait(copy, Wait::Relation::latest_with_slot, forward_body(body.body().chunk), each.copy_out);
  (out ? each.copy_out : each.copy_in) = body.emit(std::move(copy));
}

// After the instruction that makes or receives it.
void StageLowering::copy_out_if_offloaded(BodyBuilder& body, int tensor) {
  for (Offloaded& each : offloaded_[at(body.body().chunk)])
    if (each.tensor == tensor) emit_copy(body, each, true);
}

// The body that brings all of a micro-batch's activations back, in the order in which the backward
// body reads them.
void StageLowering::write_load(int chunk) {
  program_.bodies[at(load_body(chunk))] = {Body::Kind::load, chunk, {}};
  BodyBuilder body(program_, load_body(chunk));
  std::vector<Offloaded>& all = offloaded_[at(chunk)];
  for (auto each = all.rbegin(); each != all.rend(); ++each) emit_copy(body, *each, false);
}

// Layers: the last ones come back when the backward body begins, ...
void StageLowering::load_last_layers(BodyBuilder& body) {
  std::vector<Offloaded>& all = offloaded_[at(body.body().chunk)];
  if (!offloads_layers()) return;
  const std::size_t count = std::min(all.size(), ring_.size());
  for (std::size_t i = all.size(); i-- > all.size() - count;) emit_copy(body, all[i], false);
}

// ... each of the others when the place that it shares has been read for the last time.
void StageLowering::load_layer_after(BodyBuilder& body, int node) {
  std::vector<Offloaded>& all = offloaded_[at(body.body().chunk)];
  if (!offloads_layers()) return;
  for (std::size_t i = ring_.size(); i < all.size(); ++i)
    if (all[i].last_reader == node) emit_copy(body, all[i - ring_.size()], false);
}

// The first instruction of every stream that uses the buffer.
template <class Visit>
void StageLowering::for_first_users(int body, int wanted, bool writers, const Visit& visit) {
  std::array<bool, stream_count> seen{};
  for (Instruction& instruction : program_.bodies[at(body)].instructions) {
    bool& before = seen[static_cast<std::size_t>(instruction.stream)];
    if (before || !uses(writers ? instruction.outputs : instruction.inputs, wanted)) continue;
    before = true;
    visit(instruction);
  }
}

// A window's or place's former content must have left it and been read before something else is
// written there. What computes comes after all that computed before by the order of its stream.
void StageLowering::wait_until_read(Instruction& writer, Wait::Relation relation, int chunk) {
  if (writer.stream == Stream::compute) return;
  wait(writer, relation, forward_body(chunk), -1);
  wait(writer, relation, backward_body(chunk), -1);
}

void StageLowering::wait_for_windows(int chunk) {
  constexpr auto window = Wait::Relation::latest_with_window;
  for (const Offloaded& each : offloaded_[at(chunk)]) {
    const auto guard = [&](Instruction& writer) {
      wait(writer, window, forward_body(chunk), each.copy_out);
      wait_until_read(writer, window, chunk);
    };
    for_first_users(forward_body(chunk), each.device, true, guard);
    for_first_users(load_body(chunk), each.device, true, guard);
    for_first_users(backward_body(chunk), each.device, false, [&](Instruction& reader) {
      wait(reader, Wait::Relation::latest_with_slot, load_body(chunk), each.copy_in);
    });
  }
}

// Bodies of all chunks share the ring.
void StageLowering::wait_for_ring() {
  const int chunks = plan_.parallelism.virtual_stages;
  for (const int place : ring_)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (const int body : {forward_body(chunk), backward_body(chunk)})
        for_first_users(body, place, true, [&](Instruction& writer) {
          for (int other = 0; other < chunks; ++other) {
            int last = -1;
            for (const Offloaded& each : offloaded_[at(other)])
              if (each.device == place) last = each.copy_out;
            if (last < 0) continue;
            wait(writer, Wait::Relation::latest, forward_body(other), last);
            wait_until_read(writer, Wait::Relation::latest, other);
          }
        });
}

void StageLowering::wait_for_offloaded() {
  if (offloads_layers()) return wait_for_ring();
  for (int chunk = 0; chunk < plan_.parallelism.virtual_stages; ++chunk)
    if (!offloaded_[at(chunk)].empty()) wait_for_windows(chunk);
}

}  // namespace meshwright
