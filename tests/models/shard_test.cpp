// Tests the effects of sharding on Programs and MemoryPlans: buckets, gathers and owners.
#include <algorithm>

#include "models/compiler/lower/owners.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

Program lowered(const Model& model, const Plan& plan) {
  const std::vector<Program> stages = lower_small(model, plan);
  verify(stages);
  return stages.front();
}

int count(const Program& program, InstructionKind kind) {
  int found = 0;
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions)
      found += instruction.kind == kind && instruction.group != GroupKind::norm;
  return found;
}

std::int64_t bytes_of(const Program& program, MemoryClass cls) {
  return program.memory.class_bytes[static_cast<std::size_t>(cls)];
}

std::vector<std::int64_t> gather_buffers(const Program& program) {
  std::vector<std::int64_t> bytes;
  for (const Buffer& buffer : program.memory.buffers)
    if (buffer.name == "gathered_weights") bytes.push_back(buffer.bytes);
  return bytes;
}

Plan zero_3(const Model& model) {
  Plan plan = small_plan(model, {.data = 4, .zero_stage = 3});
  plan.parallelism.reduce_bucket_bytes = 0;
  return plan;
}

}  // namespace

TEST_CASE("small parameters stay whole under ZeRO 3", "[models][lower]") {
  const Model model = small_model("llama");  // norms of 32 elements, matrices of 1,024 and more
  Plan plan = zero_3(model);
  const Program all = lowered(model, plan);
  plan.parallelism.persistence_threshold = 33;
  const Program some = lowered(model, plan);
  for (const StageParameter& member : some.parameters) {
    const Bucket& bucket = some.buckets[member.bucket];
    const bool whole = bucket.weights.type.shape.elements() == bucket.elements;
    CHECK(whole == (member.parameter.shape.elements() < 33));
    CHECK(bucket.sharded);  // optimizer states are sharded in any case
    CHECK((bucket.gradients.type.shape.elements() == bucket.elements) == whole);
  }
  CHECK(bytes_of(some, MemoryClass::parameters) > bytes_of(all, MemoryClass::parameters));
  // If all parameters stay whole, nothing is gathered in forward and backward passes. Each bucket
  // is gathered once, after the optimizer has updated it.
  plan.parallelism.persistence_threshold = 1'000'000;
  const Program none = lowered(model, plan);
  CHECK(count(none, InstructionKind::all_gather) == static_cast<int>(none.buckets.size()));
  for (const std::int64_t bytes : gather_buffers(none)) CHECK(bytes == 0);
}

TEST_CASE("the cap on live parameters decides how many units are gathered at once",
          "[models][lower]") {
  const Model model = small_model("gpt");
  Plan plan = zero_3(model);
  CHECK(gather_buffers(lowered(model, plan)).size() == 3);  // two for blocks, one for the embedding
  std::size_t before = 0;
  for (const std::int64_t cap : {1, 25'000, 30'000, 40'000, 60'000, 1'000'000}) {
    plan.parallelism.max_live_parameters = cap;
    const Program program = lowered(model, plan);
    const std::vector<std::int64_t> bytes = gather_buffers(program);
    INFO("cap " << cap << ": " << bytes.size() << " buffers");
    CHECK(bytes.size() >= before);
    before = bytes.size();
    std::int64_t elements = 0;
    for (const std::int64_t each : bytes) elements += each / 4;
    // Prefetching pauses at the cap, so without the last unit the cap is not reached. At least the
    // tied embedding and one other unit are gathered with any cap.
    const std::int64_t last = *std::max_element(bytes.begin() + 1, bytes.end()) / 4;
    CHECK((elements - last < cap || bytes.size() == 2));
    CHECK(count(program, InstructionKind::all_gather) ==
          count(lowered(model, zero_3(model)), InstructionKind::all_gather));
  }
  CHECK(before > 4);
}

TEST_CASE("without prefetch a unit is gathered when the one before has been used",
          "[models][lower]") {
  const Model model = small_model("gpt");
  Plan plan = zero_3(model);
  for (const std::int64_t cap : {1, 1'000'000}) {
    plan.parallelism.max_live_parameters = cap;
    const Program program = lowered(model, plan);
    const Body& forward = program.bodies[1];
    int gathers = 0, waiting = 0;
    for (const Instruction& instruction : forward.instructions) {
      if (instruction.kind != InstructionKind::all_gather) continue;
      ++gathers;
      waiting +=
          std::any_of(instruction.waits.begin(), instruction.waits.end(), [&](const Wait& wait) {
            return wait.relation == Wait::Relation::same_task &&
                   forward.instructions[wait.instruction].kind == InstructionKind::compute;
          });
    }
    // The shared and the first unit are gathered at once, and each other unit after its predecessor
    // was used. With memory for all units, none waits.
    CHECK(waiting == (cap == 1 ? gathers - 2 : 0));
  }
}

TEST_CASE("buckets cut the reductions inside a unit", "[models][lower]") {
  const Model model = small_model("gpt");
  Plan plan = zero_3(model);
  const Program one = lowered(model, plan);
  plan.parallelism.reduce_bucket_bytes = 4 * 1024 * 4;
  const Program cut = lowered(model, plan);
  CHECK(count(cut, InstructionKind::reduce_scatter) > count(one, InstructionKind::reduce_scatter));
  for (const Bucket& bucket : cut.buckets) {
    // All members of a bucket except the last one are together smaller than the limit.
    const StageParameter& last = cut.parameters[bucket.parameters.back()];
    CHECK(last.offset < 4 * 1024);
  }
  // A reduction begins as soon as its gradients are computed, before the unit ends.
  const Body& backward = cut.bodies[2];
  int inside = 0;  // gradients computed between two reductions of one unit
  bool reduced = false, computed = false;
  for (const Instruction& instruction : backward.instructions) {
    if (instruction.op == Op::zero && instruction.kind == InstructionKind::compute) reduced = false;
    computed = computed || instruction.op == Op::linear_grad_weight;
    if (instruction.kind != InstructionKind::reduce_scatter) continue;
    inside += reduced && computed;
    reduced = true, computed = false;
  }
  CHECK(inside > 0);
}

TEST_CASE("buckets grow with the ranks that reduce", "[models][lower]") {
  CHECK(default_bucket_bytes(2) == 25 << 20);
  CHECK(default_bucket_bytes(512) == 1024'000'000);
  Model model = small_model("gpt");
  model.hidden = 1024, model.ffn = 4096, model.vocabulary = 32000;
  const auto reductions = [&](int data) {
    Plan plan = small_plan(model, {.data = data, .zero_stage = 1});
    plan.parallelism.reduce_bucket_bytes = 0;
    return count(lowered(model, plan), InstructionKind::reduce_scatter);
  };
  CHECK(reductions(64) < reductions(4));
}

TEST_CASE("whole parameters are shared out evenly", "[models][lower]") {
  // 4 owners share items of sizes 5, 1, 1, 1, 4 and 4. The largest share is at least 5, and the
  // result is {5} {1 1 1} {4} {4}.
  std::vector<OwnedItem> items;
  for (const std::int64_t size : {5, 1, 1, 1, 4, 4}) items.push_back({size});
  const std::vector<Owner> owners = share_out(items, 4, 1);
  const int expected[] = {0, 1, 1, 1, 2, 3};
  for (std::size_t i = 0; i < owners.size(); ++i) CHECK(owners[i] == Owner{expected[i], -1});
  // A pinned item of size 3 must belong to the first owner.
  items.push_back({3, true, true});
  const std::vector<Owner> pinned = share_out(items, 4, 1);
  CHECK(pinned.back() == Owner{0, -1});
  // Items that all tensor ranks hold identically have rdp * tensor owners.
  const std::vector<Owner> alike =
      share_out({{1, false}, {1, false}, {1, false}, {1, false}}, 2, 2);
  for (int i = 0; i < 4; ++i) CHECK(alike[i] == Owner{i / 2, i % 2});
}

TEST_CASE("with owners every optimizer state lies on one rank", "[models][lower]") {
  const Model model = small_model("gpt");
  for (const SmallDegrees degrees :
       {SmallDegrees{1, 1, 4, 2, 1}, SmallDegrees{1, 2, 2, 2, 1}, SmallDegrees{2, 2, 2, 2, 1}}) {
    Plan plan = small_plan(model, degrees);
    INFO(describe(plan));
    const std::vector<Program> flat = lower_small(model, plan);
    plan.parallelism.shard_whole = true;
    const std::vector<Program> stages = lower_small(model, plan);
    verify(stages);
    for (const Program& program : stages) {
      std::int64_t total = 0, largest = 0;
      for (const Bucket& bucket : program.buckets) {
        CHECK_FALSE(bucket.owner.everybody());
        CHECK_FALSE(bucket.sharded);
        total += bucket.elements / (bucket.owner.tensor < 0 ? 1 : degrees.tensor);
        for (int member : bucket.parameters)
          largest = std::max(largest, program.parameters[member].parameter.shape.elements());
      }
      // An element has two moments in fp32, and alignment adds less than 2048 bytes for each
      // bucket.
      const std::int64_t slack = 2048 * std::ssize(program.buckets);
      const std::int64_t owned = program.memory.arena_bytes - program.memory.owned_offset;
      CHECK(owned <= 8 * (total / degrees.data + 2 * largest) + slack);
      CHECK(owned >= 8 * total / degrees.data);
      CHECK(bytes_of(program, MemoryClass::parameters) <=
            bytes_of(flat[program.stage], MemoryClass::parameters));
    }
  }
}
