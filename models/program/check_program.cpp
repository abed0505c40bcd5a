// Checks Programs that were read from a file. Implements check_programs() of program_json.h.
#include <algorithm>
#include <string>

#include "models/program/check_program.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/segment.h"
#include "models/program/optimizer_scratch.h"
#include "models/program/program_json.h"
#include "models/program/timeline.h"

namespace meshwright::program {

namespace {

void check_settings(const JobSettings& settings, const Place& place) {
  const Place degrees = place / "degrees";
  const Degrees& d = settings.degrees;
  (degrees / "pipeline").in_range(d.pipeline, 1, most_copies);
  (degrees / "tensor").in_range(d.tensor, 1, most_copies);
  (degrees / "data").in_range(d.data, 1, most_copies);
  (degrees / "context").in_range(d.context, 1, most_copies);
  (degrees / "context_heads").in_range(d.context_heads, 1, d.context);
  (degrees / "context_heads").demand(d.context % d.context_heads == 0, "does not divide context");
  const std::int64_t rdp = std::int64_t{d.data} * d.context;
  degrees.demand(rdp <= most_copies && rdp * d.tensor <= most_copies &&
                     rdp * d.tensor * d.pipeline <= most_copies,
                 "more than a million ranks");
  (degrees / "shard").in_range(d.shard, 1, rdp);
  (degrees / "expert").in_range(d.expert, 1, d.expert_ranks());
  (degrees / "shard").demand(rdp % d.shard == 0, "does not divide data x context");
  (degrees / "expert")
      .demand(d.expert_ranks() % d.expert == 0, d.experts_over_tensor
                                                    ? "does not divide data x context x tensor"
                                                    : "does not divide data x context");
  (degrees / "shard")
      .demand(d.expert_rdp() % d.expert_shard() == 0, "does not divide data x context / expert");
  const auto& known = placements();
  (place / "placement")
      .demand(std::ranges::count(known, settings.placement) > 0,
              "unknown placement '" + settings.placement + "'; known: " + list_of(known, "and"));
  const Place training = place / "training";
  const StepSettings& step = settings.training;
  constexpr std::int64_t many = 1 << 30;
  (training / "global_batch").in_range(step.global_batch, 1, many);
  (training / "micro_batch").in_range(step.micro_batch, 1, many);
  (training / "sequence_length").in_range(step.sequence_length, 1, many);
  (training / "warmup_steps").in_range(step.warmup_steps, 0, many);
  (training / "moments_at_random")
      .demand(!step.moments_at_random || step.moments == Dtype::bf16, "only moments in bf16 are");
  (training / "moments")
      .demand(step.moments == Dtype::f32 || step.moments == Dtype::bf16 ||
                  step.moments == Dtype::block8 || step.moments == Dtype::f64,
              "moments are f32, bf16, block8 or f64");
  (training / "ema_decay").demand(step.ema_decay >= 0 && step.ema_decay < 1, "is not in [0, 1)");
}

// An integer attribute of operations and the least value that it may have. Kernels use these
// attributes as counts or indices, and may divide by those whose least value is 1.
struct LeastAttribute {
  std::string_view name;
  int Attributes::*member;
  int least;
};
constexpr LeastAttribute least_attributes[] = {
    {"micro_batch", &Attributes::micro_batch, 1},
    {"sequence_length", &Attributes::sequence_length, 1},
    {"heads", &Attributes::heads, 0},
    {"kv_heads", &Attributes::kv_heads, 0},
    {"head_dim", &Attributes::head_dim, 0},
    {"rotary_dim", &Attributes::rotary_dim, 0},
    {"position_offset", &Attributes::position_offset, 0},
    {"tensor_degree", &Attributes::tensor_degree, 1},
    {"context_degree", &Attributes::context_degree, 1},
    {"ring_step", &Attributes::ring_step, -1},
    {"head_parts", &Attributes::head_parts, 1},
    {"rotary_original", &Attributes::rotary_original, 0},
    {"temperature_floor", &Attributes::temperature_floor, 1},
    {"alibi_heads", &Attributes::alibi_heads, 0},
    {"relative_buckets", &Attributes::relative_buckets, 0},
    {"relative_distance", &Attributes::relative_distance, 0},
    {"score_width", &Attributes::score_width, 0},
    {"value_dim", &Attributes::value_dim, 0},
    {"window", &Attributes::window, 0},
    {"chunk", &Attributes::chunk, 0},
    {"experts", &Attributes::experts, 0},
    {"experts_per_token", &Attributes::experts_per_token, 0},
    {"expert_groups", &Attributes::expert_groups, 1},
    {"groups_per_token", &Attributes::groups_per_token, 1},
    {"expert_capacity", &Attributes::expert_capacity, 0},
    {"expert_parts", &Attributes::expert_parts, 0},
    {"patch_size", &Attributes::patch_size, 0},
    {"channels", &Attributes::channels, 0},
    {"matrices", &Attributes::matrices, 1}};

void check_attributes(const Attributes& attributes, const Place& place) {
  constexpr std::int64_t most = 1 << 30;
  for (const LeastAttribute& each : least_attributes)
    (place / each.name).in_range(attributes.*each.member, each.least, most);
}

// Checks the layout, memory, bodies and tasks of a stage.
class StageCheck {
 public:
  StageCheck(const Program& program, int stages, const Place& place)
      : program_(program),
        memory_(program.memory),
        settings_(*program.settings),
        mesh_(settings_.mesh()),
        stages_(stages),
        place_(place),
        has_(program, mesh_, place_) {}
  StageCheck(const StageCheck&) = delete;

  void run() const {
    check_layout();
    has_.run();
    for (std::size_t b = 0; b < program_.bodies.size(); ++b) check_body(b);
    (place_ / "tasks").demand(!program_.tasks.empty(), "there are none");
    for (std::size_t t = 0; t < program_.tasks.size(); ++t)
      check_task(program_.tasks[t], place_ / "tasks" / t);
  }

 private:
  void check_layout() const {
    const Place place = place_ / "layout";
    (place / "chunks").in_range(program_.layout.chunks, 1, most_copies);
    (place / "stages")
        .demand(program_.layout.stages == stages_ && settings_.degrees.pipeline == stages_,
                "the file has " + std::to_string(stages_) + " stages, so this and " +
                    "/settings/degrees/pipeline are that many");
    (place_ / "micro_batches").in_range(program_.micro_batches, 1, 1 << 30);
  }

  void check_body(std::size_t index) const {
    const Body& body = program_.bodies[index];
    const Place place = place_ / "bodies" / index;
    (place / "chunk").names(body.chunk, program_.layout.chunks, "chunk", -1);
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const Place own = place / "instructions" / i;
      const Instruction& instruction = body.instructions[i];
      for (std::size_t k = 0; k < instruction.inputs.size(); ++k)
        has_.check_operand(instruction.inputs[k], own / "inputs" / k);
      for (std::size_t k = 0; k < instruction.outputs.size(); ++k)
        has_.check_operand(instruction.outputs[k], own / "outputs" / k);
      (own / "module").names(instruction.module, program_.modules->size(), "module", -1);
      (own / "bucket").names(instruction.bucket, program_.buckets.size(), "bucket", -1);
      if (instruction.peer >= 0) (own / "peer").names(instruction.peer, stages_, "stage");
      check_attributes(instruction.attributes, own / "attributes");
      check_kind(instruction, body, own);
      check_overwrites(instruction, own / "overwrites");
    }
  }

  static void check_overwrites(const Instruction& instruction, const Place& place) {
    if (instruction.overwrites == 0) return;
    const bool computes = instruction.kind == InstructionKind::compute;
    place.demand(computes || instruction.accumulate, "the instruction adds to nothing");
    for (std::size_t i = 0; i < 32; ++i) {
      if ((instruction.overwrites >> i & 1U) == 0) continue;
      place.demand(i < instruction.outputs.size(),
                   "there is no output " + std::to_string(i) + " to overwrite");
      place.demand(
          !computes || can_overwrite(instruction.op, instruction.attributes, i),
          std::string(info(instruction.op).name) + " cannot overwrite output " + std::to_string(i));
    }
  }

  static void operands(const Instruction& instruction, std::size_t inputs, std::size_t outputs,
                       const Place& place) {
    (place / "inputs").demand(instruction.inputs.size() >= inputs, "one is needed");
    (place / "outputs").demand(instruction.outputs.size() >= outputs, "one is needed");
  }

  void check_kind(const Instruction& instruction, const Body& body, const Place& place) const {
    switch (instruction.kind) {
      case InstructionKind::compute:
        return check_compute(instruction, place);
      case InstructionKind::load_input:
        return check_load(instruction, place);
      case InstructionKind::send:
      case InstructionKind::recv:
        return check_message(instruction, body, place);
      case InstructionKind::copy_out:
      case InstructionKind::copy_in:
        operands(instruction, 1, 1, place);
        return place.demand(
            instruction.inputs[0].type.bytes() == instruction.outputs[0].type.bytes(),
            "what is copied has another size than where it goes");
      case InstructionKind::optimizer_step:
        (place / "bucket").names(instruction.bucket, program_.buckets.size(), "bucket");
        check_stepped(instruction, place);
        if (optimizer_scratch_arrays(settings_.training) > 0) operands(instruction, 0, 1, place);
        return;
      default:
        return check_collective(instruction, place);
    }
  }

  // Checks that an instruction names a piece of its bucket if the bucket is updated in pieces,
  // because its states wait in host memory, and no piece otherwise.
  void check_stepped(const Instruction& instruction, const Place& place) const {
    const std::size_t pieces = program_.buckets[instruction.bucket].pieces.size();
    (place / "piece").names(instruction.piece, pieces, "piece of the bucket", pieces > 0 ? 0 : -1);
  }

  static void check_count(Op op, std::string_view which, const Count& count, std::size_t found,
                          const Place& place) {
    if (count.has(found)) return;
    const std::string wanted = count.most == Count::any   ? std::to_string(count.least) + " or more"
                               : count.most > count.least ? std::to_string(count.least) + " to " +
                                                                std::to_string(count.most)
                                                          : std::to_string(count.least);
    (place / which)
        .fail(std::to_string(found) + " where " + std::string(info(op).name) + " has " + wanted);
  }

  static void check_fusion(const Instruction& instruction, const Place& place) {
    const Fusion* fusion = instruction.attributes.fusion.get();
    const Place own = place / "attributes" / "fusion";
    if (fusion == nullptr) own.fail("missing; a fused operation has its steps");
    const std::size_t operands = fusion->operands.size();
    const auto needs = [&](std::string_view which, int number, std::int64_t found) {
      (place / which)
          .demand(number >= 0 && found >= number,
                  std::to_string(found) + " where the fusion has " + std::to_string(number));
    };
    needs("inputs", fusion->inputs, instruction.inputs.size());
    needs("outputs", fusion->outputs, instruction.outputs.size());
    needs("outputs", fusion->accumulated, std::ssize(instruction.outputs) - fusion->outputs);
    (own / "cut").demand(fusion->cut.size() == operands, "one flag for each operand is needed");
    (own / "operands")
        .demand(
            std::ssize(fusion->operands) >= fusion->inputs + fusion->outputs + fusion->accumulated,
            "there are fewer than inputs, outputs and accumulated");
    (own / "block_rows").demand(fusion->block_rows > 0, "a block has at least one row");
    for (std::size_t i = 0; i < fusion->steps.size(); ++i) {
      const FusedStep& step = fusion->steps[i];
      const Place here = own / "steps" / i;
      check_attributes(step.attributes, here / "attributes");
      check_count(step.op, "inputs", info(step.op).takes, step.inputs.size(), here);
      check_count(step.op, "outputs", info(step.op).makes, step.outputs.size(), here);
      for (const TensorIds* ids : {&step.inputs, &step.outputs})
        for (const int id : *ids)
          (here / (ids == &step.inputs ? "inputs" : "outputs")).names(id, operands, "operand");
    }
  }

  static void check_segment(const Instruction& instruction, const Place& place) {
    const bool backward = instruction.op == Op::segment_grad;
    if (!backward && instruction.op != Op::segment) return;
    const Segment* segment = instruction.attributes.segment.get();
    const Place own = place / "attributes" / "segment";
    if (segment == nullptr) own.fail("missing; a segment has its kernels");
    const std::size_t made = backward ? segment->gradients.size() : segment->outputs.size();
    (own / (backward ? "gradients" : "outputs"))
        .demand(made <= instruction.outputs.size(), "the instruction has fewer outputs");
  }

  void check_compute(const Instruction& instruction, const Place& place) const {
    check_count(instruction.op, "inputs", info(instruction.op).takes, instruction.inputs.size(),
                place);
    check_count(instruction.op, "outputs", info(instruction.op).makes, instruction.outputs.size(),
                place);
    if (instruction.op == Op::fused) check_fusion(instruction, place);
    check_segment(instruction, place);
    const bool of_bucket =
        instruction.op == Op::sum_of_squares || instruction.op == Op::lamb_norms ||
        instruction.op == Op::muon_momentum || instruction.op == Op::update_choice_biases ||
        instruction.op == Op::adafactor_sums || instruction.op == Op::adafactor_norms;
    (place / "bucket")
        .names(instruction.bucket, program_.buckets.size(), "bucket", of_bucket ? 0 : -1);
    if (of_bucket && instruction.op != Op::sum_of_squares) check_stepped(instruction, place);
    if (instruction.op == Op::update_loss_scale)
      place.demand(program_.loss_scale_buffer >= 0, "there is no loss_scale_buffer");
    if (instruction.op == Op::update_largest)
      place.demand(program_.history_buffer >= 0, "there is no history_buffer");
    if (instruction.op == Op::update_choice_biases)
      place.demand(program_.choice_counts_buffer >= 0, "there is no choice_counts_buffer");
    if (instruction.op == Op::adafactor_sums)
      place.demand(program_.factors_buffer >= 0, "there is no factors_buffer");
  }

  void check_load(const Instruction& instruction, const Place& place) const {
    operands(instruction, 0, 1, place);
    (place / "channel")
        .in_range(instruction.channel, 0, first_captured_channel + most_captured_inputs - 1);
    if (instruction.channel >= first_captured_channel) return;
    const bool shared = instruction.group == GroupKind::tensor;
    const int sequences = settings_.training.micro_batch / (shared ? settings_.degrees.tensor : 1);
    const TensorType& type = instruction.outputs[0].type;
    (place / "outputs" / 0)
        .demand(sequences > 0 && type.dtype == Dtype::i32 && type.shape.elements() % sequences == 0,
                "i32 numbers, as many for each of a micro-batch's sequences, are needed");
  }

  void check_message(const Instruction& instruction, const Body& body, const Place& place) const {
    const bool sends = instruction.kind == InstructionKind::send;
    operands(instruction, sends ? 1 : 0, sends ? 0 : 1, place);
    (place / "peer").names(instruction.peer, stages_, "stage");
    (place / "peer_chunk").names(instruction.peer_chunk, program_.layout.chunks, "chunk");
    (place / "channel").in_range(instruction.channel, 0, 1 << 16);
    place.demand(body.chunk >= 0, "messages are sent and received in bodies of a chunk");
    const Stream own = stream_of_message(program_.layout, instruction, body.chunk);
    (place / "stream")
        .demand(instruction.stream == own, "messages have streams of their own: this one goes on " +
                                               std::string(name_of(own)));
  }

  // Returns the bytes of all parts that are gathered or scattered. `parts` is one operand that
  // holds all, or one operand for each rank, at equal distances in a buffer; throws InputError
  // otherwise.
  static std::int64_t bytes_of_parts(const std::vector<Operand>& parts, std::int64_t ranks,
                                     const Place& place) {
    if (parts.size() == 1) return parts[0].type.bytes();
    place.demand(static_cast<std::int64_t>(parts.size()) == ranks,
                 "one is needed, or one for each rank of the group");
    for (std::size_t i = 1; i < parts.size(); ++i) {
      Operand expected = parts[0];
      expected.offset += static_cast<std::int64_t>(i) * (parts[1].offset - parts[0].offset);
      place.demand(parts[i] == expected, "parts are of one type, at equal distances in a buffer");
    }
    return parts[0].type.bytes() * ranks;
  }

  void check_collective(const Instruction& instruction, const Place& place) const {
    operands(instruction, 1, 1, place);
    (place / "group").demand(instruction.group != GroupKind::none, "a collective has a group");
    const std::int64_t ranks = std::max(1, mesh_.size_of(instruction.group));
    const Operand &in = instruction.inputs[0], &out = instruction.outputs[0];
    const std::int64_t from = in.type.bytes(), to = out.type.bytes();
    (place / "root").in_range(instruction.root, 0, ranks - 1);
    switch (instruction.kind) {
      case InstructionKind::all_reduce:
        return place.demand(in == out, "an all-reduce works in place");
      case InstructionKind::all_gather:
        return place.demand(
            bytes_of_parts(instruction.outputs, ranks, place / "outputs") == from * ranks,
            "gathers as many parts as the group has ranks");
      case InstructionKind::reduce_scatter:
        return place.demand(
            bytes_of_parts(instruction.inputs, ranks, place / "inputs") == to * ranks,
            "scatters as many parts as the group has ranks");
      case InstructionKind::all_to_all:
        return place.demand(from == to && from % ranks == 0,
                            "the ranks of the group do not divide what is exchanged");
      default:
        return place.demand(from == to, "what is received has another size than what is sent");
    }
  }

  // Checks the index of a slot or window against the number of slots or windows of the chunk. If
  // the chunk has none, only 0 is legal.
  static void check_copy(int copy, int chunk, const std::vector<SlotRegion>& regions,
                         const Place& place) {
    const bool has = chunk >= 0 && chunk < std::ssize(regions);
    place.in_range(copy, 0, std::max(0, (has ? regions[chunk].slots : 0) - 1));
  }

  void check_task(const Task& task, const Place& place) const {
    (place / "body").names(task.body, program_.bodies.size(), "body");
    const Body& body = program_.bodies[task.body];
    (place / "chunk").demand(task.chunk == body.chunk, "is not that of its body");
    (place / "micro_batch_index")
        .names(task.micro_batch_index, program_.micro_batches, "micro-batch", -1);
    check_copy(task.slot, task.chunk, memory_.slots, place / "slot");
    check_copy(task.window, task.chunk, memory_.windows, place / "window");
    for (const Instruction& instruction : body.instructions) {
      if (!runs(instruction, task)) continue;
      for (const auto* operands : {&instruction.inputs, &instruction.outputs})
        for (const Operand& operand : *operands) check_reach(operand, task, place);
    }
  }

  // Checks a buffer that the task's body uses: if it has a copy for each slot or window, the task's
  // slot or window must exist. Other buffers have one copy and always pass.
  void check_reach(const Operand& operand, const Task& task, const Place& place) const {
    const Buffer& buffer = memory_.buffers[operand.buffer];
    const auto& regions = buffer.region == Region::slot     ? memory_.slots
                          : buffer.region == Region::window ? memory_.windows
                                                            : memory_.host;
    const bool in_copies = buffer.region == Region::slot || buffer.region == Region::window ||
                           (buffer.region == Region::host && buffer.chunk >= 0);
    if (!in_copies) return;
    const int copy = buffer.region == Region::window ? task.window : task.slot;
    place.demand(copy < regions[buffer.chunk].slots,
                 "its body uses buffer " + std::to_string(operand.buffer) + " in copy " +
                     std::to_string(copy) + ", of which there are " +
                     std::to_string(regions[buffer.chunk].slots));
  }

  const Program& program_;
  const MemoryPlan& memory_;
  const JobSettings& settings_;
  Mesh mesh_;
  int stages_;
  Place place_;
  StageMemoryCheck has_;
};

}  // namespace

void check_programs(const std::vector<Program>& stages, const std::string& where) {
  const Place top(where, "");
  (top / "stages").demand(!stages.empty(), "there are none");
  check_settings(*stages.front().settings, top / "settings");
  const int count = static_cast<int>(stages.size());
  for (int stage = 0; stage < count; ++stage) {
    const Place place = top / "stages" / stage;
    (place / "stage").demand(stages[stage].stage == stage, "stages are given in order, from 0");
    StageCheck(stages[stage], count, place).run();
  }
  if (const std::string broken = broken_rule(stages); !broken.empty())
    (top / "stages").fail(broken);
}

}  // namespace meshwright::program
