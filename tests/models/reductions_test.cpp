// Tests when gradients are reduced, and for how long gathered parameters are kept: the collectives
// of a step, and the memory that this needs.
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

struct Sharded {
  SmallDegrees degrees;  // pipeline, tensor, data, micro-batches, ZeRO, virtual stages
  ReduceGradients reduce = ReduceGradients::usual;
  bool keeps = false;
};

Plan plan_of(const Model& model, const Sharded& sharded) {
  Plan plan = small_plan(model, sharded.degrees);
  plan.parallelism.reduce_gradients = sharded.reduce;
  plan.parallelism.keeps_gathered = sharded.keeps;
  plan.parallelism.reduce_bucket_bytes = 0;
  return plan;
}

std::vector<Program> lowered(const Sharded& sharded) {
  const Model model = small_model("llama");
  std::vector<Program> stages = lower_small(model, plan_of(model, sharded));
  verify(stages);
  return stages;
}

bool reduces_each(const Sharded& sharded) {
  return plan_of(small_model("llama"), sharded).reduces_each_micro_batch();
}

// Returns the elements that collectives of one kind move in the micro-batches of a step, relative
// to the elements of all parameters.
double times_all(const std::vector<Program>& stages, InstructionKind kind) {
  std::int64_t all = 0, moved = 0;
  for (const Program& program : stages) {
    for (const Bucket& bucket : program.buckets) all += bucket.elements;
    for (const Task& task : program.tasks)
      for (const Instruction& i : program.bodies[static_cast<std::size_t>(task.body)].instructions)
        if (i.kind == kind && i.bucket >= 0 && task.micro_batch_index >= 0 && runs(i, task))
          moved += std::max(i.inputs[0].type.shape.elements(), i.outputs[0].type.shape.elements());
  }
  return static_cast<double>(moved) / static_cast<double>(all);
}

// Returns `bytes` relative to 4 bytes for each parameter of the stage.
double share_of(const Program& program, std::int64_t bytes) {
  std::int64_t elements = 0;
  for (const Bucket& bucket : program.buckets) elements += bucket.elements;
  return static_cast<double>(bytes) / (4 * static_cast<double>(elements));
}
double gradients(const std::vector<Program>& stages) {
  const auto cls = static_cast<std::size_t>(MemoryClass::gradients);
  return share_of(stages[0], stages[0].memory.class_bytes[cls]);
}
double buffers(const std::vector<Program>& stages, std::string_view name) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : stages[0].memory.buffers)
    if (buffer.name == name) bytes += buffer.bytes;
  return share_of(stages[0], bytes);
}

constexpr ReduceGradients usual = ReduceGradients::usual, each = ReduceGradients::each,
                          last = ReduceGradients::last;
constexpr auto near = [](double share) { return Approx(share).epsilon(0.02); };

}  // namespace

TEST_CASE("gradients are reduced once a step below ZeRO 2, and with stages below 3",
          "[models][lower]") {
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    CHECK(reduces_each({{1, 1, 4, 4, zero}}) == (zero >= 2));
    CHECK(reduces_each({{2, 1, 4, 4, zero}}) == (zero >= 3));
    CHECK(reduces_each({{2, 1, 4, 4, zero}, each}));
    CHECK_FALSE(reduces_each({{1, 1, 4, 4, zero}, last}));
    // A single micro-batch is both the first and the last, so its gradients are reduced at once if
    // they may be sharded.
    CHECK(reduces_each({{2, 1, 4, 1, zero}, last}) == (zero >= 2));
    CHECK(reduces_each({{2, 1, 4, 1, zero}, each}) == (zero >= 1));
    CHECK_FALSE(reduces_each({{2, 1, 1, 4, zero}, each}));
  }
}

TEST_CASE("reduced in every micro-batch, gradients travel as often as there are micro-batches",
          "[models][lower]") {
  for (const int zero : {0, 1, 2, 3})
    for (const int pipeline : {1, 2}) {
      CAPTURE(zero, pipeline);
      const auto kind = zero == 0 ? InstructionKind::all_reduce : InstructionKind::reduce_scatter;
      CHECK(times_all(lowered({{pipeline, 1, 4, 4, zero}, each}), kind) == near(4));
      CHECK(times_all(lowered({{pipeline, 1, 4, 4, zero}, last}), kind) == near(1));
    }
}

TEST_CASE("reduced once a step, gradients are whole under any ZeRO stage", "[models][lower]") {
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    CHECK(gradients(lowered({{1, 1, 4, 4, zero}, last})) == near(1));
    CHECK(gradients(lowered({{1, 1, 4, 4, zero}, each})) == near(zero == 0 ? 1 : 0.25));
    CHECK(gradients(lowered({{1, 1, 4, 1, zero}, last})) == near(zero < 2 ? 1 : 0.25));
  }
  CHECK(buffers(lowered({{1, 1, 4, 4, 2}, last}), "unit_gradients") == 0);
  CHECK(buffers(lowered({{1, 1, 4, 4, 2}, each}), "unit_gradients") > 0);
}

TEST_CASE("gradients summed over the replicas in every micro-batch are added to the earlier sums",
          "[models][lower]") {
  const std::vector<Program> stages = lowered({{1, 1, 4, 4, 0}, each});
  const Body& backward = stages[0].bodies[2];
  REQUIRE(backward.kind == Body::Kind::backward);
  std::int64_t reduced = 0, added = 0;
  for (const Instruction& i : backward.instructions) {
    if (i.kind == InstructionKind::all_reduce) reduced += i.outputs[0].type.shape.elements();
    if (i.kind != InstructionKind::compute || i.op != Op::add || i.bucket >= 0) continue;
    for (const Bucket& bucket : stages[0].buckets)
      if (i.outputs[0].buffer == bucket.gradients.buffer) added += bucket.elements;
  }
  CHECK(reduced > 0);
  CHECK(added == reduced);
}

TEST_CASE("parameters that are kept from forward to backward are gathered once for both",
          "[models][lower]") {
  const auto gathers = [](const Sharded& sharded) {
    return times_all(lowered(sharded), InstructionKind::all_gather);
  };
  // Weights are gathered in the forward and backward of four micro-batches, in the four forwards
  // only, or in the first forward only.
  CHECK(gathers({{1, 1, 4, 4, 3}}) == near(2 * 4));
  CHECK(gathers({{1, 1, 4, 4, 3}, usual, true}) == near(4));
  CHECK(gathers({{1, 1, 4, 4, 3}, last, true}) == near(1));
  CHECK(gathers({{2, 1, 4, 4, 3}, each, true}) == near(1));
  CHECK(gathers({{2, 1, 4, 4, 3, 2}, last, true}) == near(1));
  CHECK(gathers({{1, 1, 4, 1, 3}, usual, true}) == near(1));
  CHECK(gathers({{1, 1, 4, 1, 3}}) == near(2));
  // Two of four blocks are gathered at a time, or all.
  const auto held = [](const Sharded& sharded) {
    return buffers(lowered(sharded), "gathered_weights");
  };
  CHECK(held({{1, 1, 4, 4, 3}}) < 0.6);
  CHECK(held({{1, 1, 4, 4, 3}, usual, true}) == near(1));
  CHECK(held({{2, 1, 4, 4, 3, 2}, last, true}) == near(1));
  const std::vector<Program> stages = lowered({{1, 1, 4, 4, 3}, usual, true});
  const auto cls = static_cast<std::size_t>(MemoryClass::parameters);
  CHECK(share_of(stages[0], stages[0].memory.class_bytes[cls]) == near(0.25));
}
