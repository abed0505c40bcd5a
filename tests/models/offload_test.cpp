// Tests offloading: it needs less memory on the device and more on the host, and its copies come in
// the right order.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/compiler/lower/lower.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

// The bytes of a block's input: micro_batch 2 x sequence 8 x hidden 32 x 4 bytes.
constexpr std::int64_t input = 2 * 8 * 32 * 4;

}  // namespace

TEST_CASE("windows hold what is on its way, host memory the rest", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  // In GPipe on 2 stages with 8 micro-batches, stage 0 has two blocks. Each block saves its input.
  Plan plan = offloading_plan(model, {.pipeline = 2, .micro_batches = 8}, Offload::none, 0);
  plan.parallelism.schedule = ScheduleKind::gpipe;
  const MemoryPlan kept = lower_small(model, plan)[0].memory;
  plan.parallelism.offload = Offload::activations;
  plan.parallelism.offload_horizon = 2;
  const MemoryPlan sent = lower_small(model, plan)[0].memory;
  CHECK(sent.slots[0].slots == 8);
  CHECK(sent.slots[0].stride == kept.slots[0].stride - 2 * input);
  CHECK(sent.windows[0].stride == 2 * input);
  // Forward tasks need two windows: for the newest micro-batch and for the one that is copied out.
  // Backward tasks need three: for the one that is read and for two that are copied in. Between
  // both, the last micro-batches stay while the first ones are copied in.
  CHECK(sent.windows[0].slots >= 3);
  CHECK(sent.windows[0].slots <= 5);
  CHECK(sent.host[0].stride == 2 * input);
  CHECK(sent.host_bytes == sent.host[0].slots * 2 * input);
  CHECK(sent.arena_bytes == kept.arena_bytes - (8 - sent.windows[0].slots) * 2 * input);
  CHECK(kept.host_bytes == 0);
  // With a longer horizon, activations come back earlier and so occupy windows for longer.
  plan.parallelism.offload_horizon = 4;
  CHECK(lower_small(model, plan)[0].memory.windows[0].slots > sent.windows[0].slots);
}

TEST_CASE("activations that would come back at once are not offloaded",
          "[models][lower][offload]") {
  Model model = small_model("gpt");
  model.layers = 8;  // at least one on every stage
  // In 1F1B, every backward task of the last stage follows its forward task directly.
  const Plan plan =
      offloading_plan(model, {.pipeline = 4, .micro_batches = 8}, Offload::activations, 1);
  const std::vector<Program> stages = lower_small(model, plan);
  CHECK(stages[3].memory.host_bytes == 0);
  for (const Task& task : stages[3].tasks) CHECK(!task.offloaded);
  CHECK(stages[0].memory.host_bytes > 0);
  CHECK(stages[0].memory.windows[0].slots < stages[0].memory.slots[0].slots);
  // With a single micro-batch, offloading would save nothing.
  const Program alone =
      lower_small(model, offloading_plan(model, {.micro_batches = 1}, Offload::activations, 1))[0];
  CHECK(alone.memory.host_bytes == 0);
}

TEST_CASE("layers take turns in as many places as the horizon says", "[models][lower][offload]") {
  Model model = small_model("gpt");
  model.layers = 8;
  const Plan none = offloading_plan(model, {.micro_batches = 2}, Offload::none, 0);
  const MemoryPlan kept = lower_small(model, none)[0].memory;
  for (const int horizon : {1, 2, 3, 5}) {
    const Plan plan = offloading_plan(model, {.micro_batches = 2}, Offload::layers, horizon);
    const MemoryPlan sent = lower_small(model, plan)[0].memory;
    const std::int64_t places = std::max(2, horizon);
    CHECK(sent.host_bytes == 8 * input);
    CHECK(sent.arena_bytes == kept.arena_bytes - (8 - places) * input);
  }
}

TEST_CASE(
    "without recomputation, offload of activations moves nothing and of layers what blocks save",
    "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const Offload offload : {Offload::activations, Offload::layers}) {
    Plan plan = offloading_plan(model, {.pipeline = 2, .micro_batches = 4}, offload, 1);
    plan.training.recompute = Recompute::none;
    for (const Program& program : lower_small(model, plan)) {
      CHECK((program.memory.host_bytes > 0) == (offload == Offload::layers));
      CHECK(program.tasks.size() == 2 + 2 * 4);
    }
  }
}

namespace {

Plan states_plan(const Model& model, SmallDegrees degrees, OptimizerKind optimizer) {
  Plan plan = small_plan(model, degrees);
  plan.training.precision = Precision::bf16;
  plan.training.optimizer = optimizer;
  plan.parallelism.offload = Offload::optimizer;
  plan.parallelism.reduce_bucket_bytes = 20'000;  // several buckets
  return plan;
}

std::int64_t padded(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

const Body& step_end(const Program& program) {
  return program.bodies[static_cast<std::size_t>(program.tasks.back().body)];
}

}  // namespace

TEST_CASE("states wait in host memory, and those of two pieces are on the device",
          "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const int zero : {0, 1, 3}) {
    INFO("zero " << zero);
    Plan plan = states_plan(model, {2, 1, 2, 4, zero}, OptimizerKind::adamw);
    const std::vector<Program> sent = lower_small(model, plan);
    plan.parallelism.offload = Offload::none;
    const std::vector<Program> kept = lower_small(model, plan);
    for (std::size_t stage = 0; stage < sent.size(); ++stage) {
      const MemoryPlan &with = sent[stage].memory, &without = kept[stage].memory;
      std::int64_t states = 0, largest = 0;
      for (const Bucket& bucket : sent[stage].buckets) {
        const std::int64_t all = padded(bucket.master.type.bytes()) +
                                 padded(bucket.first_moment.type.bytes()) +
                                 padded(bucket.second_moment.type.bytes());
        states += all;
        largest = std::max(largest, all);
        for (const Operand* state : {&bucket.master, &bucket.first_moment, &bucket.second_moment})
          CHECK(with.buffers[static_cast<std::size_t>(state->buffer)].region == Region::host);
      }
      CHECK(sent[stage].buckets.size() > 2);
      CHECK(with.state_bytes == states);
      CHECK(with.host_bytes == states);
      CHECK(without.host_bytes == 0);
      CHECK(with.persistent_bytes == without.persistent_bytes - states);
      // Two buffers for states need no additional memory if they fit into the task region.
      CHECK(with.task_bytes <= std::max(without.task_bytes, 2 * largest));
      CHECK(with.arena_bytes < without.arena_bytes);
    }
  }
}

TEST_CASE("states come before their step, in turns, and go back after it",
          "[models][lower][offload]") {
  const Model model = small_model("gpt");
  const Program program =
      lower_small(model, states_plan(model, {1, 1, 1, 2}, OptimizerKind::adamw))[0];
  std::vector<std::string> order, names;
  std::int64_t in = 0, out = 0, elements = 0;
  for (const Instruction& each : step_end(program).instructions) {
    const bool comes = each.kind == InstructionKind::copy_in;
    const bool goes = each.kind == InstructionKind::copy_out;
    if (!comes && !goes && each.kind != InstructionKind::optimizer_step) continue;
    if (comes) in += each.inputs[0].type.bytes();
    if (goes) out += each.inputs[0].type.bytes();
    if (comes) CHECK(each.stream == Stream::copy_in);
    if (goes) CHECK(each.stream == Stream::copy_out);
    const std::string word = std::string(comes  ? "in"
                                         : goes ? "out"
                                                : "step") +
                             " " + std::to_string(each.bucket) + "." + std::to_string(each.piece);
    if (order.empty() || order.back() != word) order.push_back(word);  // once for three states
  }
  for (std::size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = program.buckets[b];
    elements += bucket.shard_elements;
    std::int64_t end = 0;
    for (std::size_t p = 0; p < bucket.pieces.size(); ++p) {
      names.push_back(" " + std::to_string(b) + "." + std::to_string(p));
      CHECK(bucket.pieces[p].begin == end);
      end += bucket.pieces[p].count;
    }
    CHECK(end == bucket.shard_elements);
  }
  REQUIRE(names.size() > 3);
  std::vector<std::string> expected = {"in" + names[0], "in" + names[1]};
  for (std::size_t i = 0; i < names.size(); ++i) {
    expected.push_back("step" + names[i]);
    expected.push_back("out" + names[i]);
    if (i + 2 < names.size()) expected.push_back("in" + names[i + 2]);
  }
  CHECK(order == expected);
  CHECK(in == out);
  CHECK(in == elements * 12);
}

// Averages of weights are copied in before the update and copied out after it, as masters are.
TEST_CASE("averages of weights wait on the host too", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
    Plan plan = states_plan(model, {1, 1, 1, 2}, optimizer);
    plan.training.ema_decay = 0.9;
    plan.parallelism.reduce_bucket_bytes = 20'000;
    const Program program = lower_small(model, plan)[0];
    std::int64_t in = 0, out = 0, elements = 0;
    for (const Instruction& each : step_end(program).instructions) {
      if (each.kind == InstructionKind::copy_in) in += each.inputs[0].type.bytes();
      if (each.kind == InstructionKind::copy_out) out += each.inputs[0].type.bytes();
      if (each.kind != InstructionKind::optimizer_step) continue;
      const StatePiece& piece = program.buckets[static_cast<std::size_t>(each.bucket)]
                                    .pieces[static_cast<std::size_t>(each.piece)];
      CHECK(piece.average.buffer == piece.first_moment.buffer);
      CHECK(std::ranges::count(each.outputs, piece.average) == 1);
    }
    for (const Bucket& bucket : program.buckets) elements += bucket.shard_elements;
    CHECK(in == (optimizer == OptimizerKind::lamb ? 2 : 1) * 16 * elements);
    CHECK(out == 16 * elements);
  }
}

TEST_CASE("lamb measures everything first: states come twice", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const std::int64_t bucket_bytes : {20'000, 30'000, 100'000, 200'000, 1 << 30}) {
    Plan plan = states_plan(model, {1, 1, 1, 2}, OptimizerKind::lamb);
    plan.parallelism.reduce_bucket_bytes = bucket_bytes;
    const Program program = lower_small(model, plan)[0];
    std::int64_t in = 0, out = 0, elements = 0;
    for (const Instruction& each : step_end(program).instructions) {
      if (each.kind == InstructionKind::copy_in) in += each.inputs[0].type.bytes();
      if (each.kind == InstructionKind::copy_out) out += each.inputs[0].type.bytes();
    }
    for (const Bucket& bucket : program.buckets) elements += bucket.shard_elements;
    CHECK(in == 2 * 12 * elements);
    CHECK(out == 12 * elements);  // moments once, then masters
    // In list order, each instruction finds the states of its own piece in the buffer.
    std::map<int, std::pair<int, int>> there;
    for (const Instruction& each : step_end(program).instructions) {
      const std::pair piece{each.bucket, each.piece};
      if (each.piece < 0) continue;
      const int place = program.buckets[static_cast<std::size_t>(each.bucket)]
                            .pieces[static_cast<std::size_t>(each.piece)]
                            .first_moment.buffer;
      if (each.kind == InstructionKind::copy_in) there[place] = piece;
      CHECK(there[place] == piece);
    }
  }
}
