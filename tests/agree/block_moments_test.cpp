// Moments in 8 bits have a scale for each block of elements. Blocks are those of whole parameters,
// however a model is split, so all degrees train alike.
#include "exec/checkpoint/load.h"
#include "exec/checkpoint/resume.h"
#include "exec/checkpoint/saver.h"
#include "exec/comm/self.h"
#include "exec/runtime/state_view.h"
#include "models/core/error.h"
#include "tests/agree/rounding.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/ranks_in_turn.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

void moments_of_8_bits(Plan& plan) {
  plan.training.optimizer = OptimizerKind::adamw;
  plan.training.moments = Dtype::block8;
  plan.training.epsilon = 1e-3;  // key biases, whose true gradient is zero, stay where they are
}

// Returns a model so wide that two ranks of a tensor group have 256 consecutive elements, one
// block, of every row.
Model model_of_blocks(const std::string& family) {
  Model model = small_model(family);
  model.hidden = model.ffn = 512;
  model.head_dim = model.hidden / model.heads;
  model.layers = 2;
  return model;
}

constexpr Variant block_variants[] = {
    {{1, 1, 2, 4, 0}, moments_of_8_bits},
    {{1, 1, 2, 4, 1}, moments_of_8_bits},
    {{1, 1, 2, 4, 2}, moments_of_8_bits},
    {{1, 1, 2, 4, 3}, moments_of_8_bits},
    {{2, 1, 1, 4, 0}, all_of<moments_of_8_bits, zero_bubble>},
    {{1, 1, 1, 4, 0, 1, 2}, moments_of_8_bits},
    {{2, 1, 2, 4, 1}, moments_of_8_bits},
    {{1, 1, 4, 2, 3}, all_of<moments_of_8_bits, in_pairs>},
};

struct SavedStates {
  std::map<std::string, std::vector<std::vector<float>>> states;  // by name: each state
  bool operator==(const SavedStates&) const = default;
};

// Returns the states that a run under this plan saves, either after three steps or right after it
// has resumed from `from`.
SavedStates saved_by(const Model& model, Plan plan, World& world, const std::string& from,
                     const std::string& to) {
  plan.snapshot = true;
  SmallRun run(model, plan, world);
  const auto all = group_of_all(world);
  const auto fail = [](const std::string& line) { FAIL(line); };
  if (from.empty())
    for (int step = 1; step <= 3; ++step) run.step(step);
  else
    REQUIRE(resume({from, "adamw", shapes_of(run.stages)}, run.runtime, *all, fail));
  Saver saver(to, 1, run.runtime, *all, fail);
  Manifest about;
  about.run = "blocks";
  about.step = 3;
  about.optimizer = "adamw";
  saver.save(about);
  CHECK(saver.finish());
  SavedStates saved;
  const Checkpoint checkpoint(step_folders(to).front().path);
  for (const auto& [name, shape] : shapes_of(run.stages))
    for (int state = 0; state < checkpoint.states(); ++state) {
      std::vector<float>& values =
          saved.states[name].emplace_back(static_cast<std::size_t>(shape.elements()));
      const ParameterRun whole{0, 0, shape.elements()};
      checkpoint.read(name, state, {&whole, 1}, values.data());
    }
  return saved;
}

}  // namespace

TEST_CASE_ON_RANKS("moments in 8 bits train alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(block_variants, world, [&](const Model& model, Plan plan) {
    moments_of_8_bits(plan);
    const Trained& expected = train_alone(model, on_one_process(plan));
    Plan in_fp32 = on_one_process(plan);
    in_fp32.training.moments = Dtype::f32;
    CHECK(largest_difference(expected, train_alone(model, in_fp32)) > 0);
    const Trained got = train(model, plan, world);
    // A rounding may turn a code, and the next one is some percent away.
    CHECK(largest_difference(got, expected) <= 1e-4);
    CHECK(got == train(model, plan, world));
    Plan cut = plan;
    cut.parallelism.reduce_bucket_bytes = 8'192;
    CHECK(train(model, cut, world).parameters == got.parameters);
    if (plan.parallelism.zero_stage != 1 || world.size() > 2) return;
    cut.parallelism.zero_stage = 0;
    CHECK(train(model, cut, world).parameters == got.parameters);
  });
}

// Codes that are widened to fp32 and encoded again are the same only if all degrees hold the same
// blocks.
TEST_CASE_ON_RANKS("checkpoints of moments in 8 bits lose nothing under other degrees",
                   "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const Model model = model_of_blocks(one_in(2) == 1 ? "gpt" : "llama");
  const TestFolder own;
  std::string shared = own.path();
  group_of_all(world)->broadcast(shared.data(), static_cast<std::int64_t>(shared.size()), 0);
  int number = 0;
  const auto folder = [&] { return shared + "/" + std::to_string(++number); };
  const auto plan_of = [&](SmallDegrees degrees) {
    Plan plan = base_plan(model, degrees);
    moments_of_8_bits(plan);
    return plan;
  };
  const std::string begun = folder();
  const SavedStates expected = saved_by(model, plan_of({1, 1, 2, 4, 1}), world, "", begun);
  std::string before = begun;
  for (const SmallDegrees degrees : {SmallDegrees{1, 2, 1}, SmallDegrees{2, 1, 1},
                                     SmallDegrees{1, 1, 2, 4, 3}, SmallDegrees{1, 1, 2, 4, 0}}) {
    const std::string next = folder();
    CHECK(saved_by(model, plan_of(degrees), world, before, next) == expected);
    before = next;
  }
  group_of_all(world)->barrier();  // the folder goes with the first rank that leaves
}

// A third of each replica's elements is not a whole number of blocks, and a block's codes mean
// nothing without its scale. The saved states must nevertheless equal those that the ranks hold.
TEST_CASE("three replicas save whole blocks of moments in 8 bits", "[agree]") {
  const Model model = small_model("gpt");
  Plan plan = base_plan(model, {1, 1, 3, 2, 0});
  moments_of_8_bits(plan);
  plan.snapshot = true;
  const TestFolder folder;
  std::size_t compared = 0, moved = 0, odd = 0;
  run_in_turn(3, [&] {
    World& world = world_in_turn();
    SmallRun run(model, plan, world);
    const auto all = group_of_all(world);
    for (int step = 1; step <= 2; ++step) run.step(step);
    Saver saver(folder.path(), 1, run.runtime, *all, [](const std::string& line) { FAIL(line); });
    Manifest about;
    about.run = "blocks";
    about.step = 2;
    about.optimizer = "adamw";
    saver.save(about);
    CHECK(saver.finish());
    if (world.rank() != 0) return;
    for (const Bucket& bucket : run.stages[0].buckets)
      if (bucket.shard_elements / 3 % moment_block != 0) ++odd;
    const Checkpoint checkpoint(step_folders(folder.path()).front().path);
    const Arena& memory = run.runtime.memory();
    for (const StageParameter& member : run.stages[0].parameters) {
      const OwnedStates held = memory.states(member);
      const std::int64_t count = member.parameter.global_shape.elements();  // padding is behind it
      REQUIRE((held.begin == 0 && held.count >= count));
      for (int state : {1, 2}) {
        std::vector<float> saved(static_cast<std::size_t>(count));
        const ParameterRun whole{0, 0, count};
        checkpoint.read(member.parameter.name, state, {&whole, 1}, saved.data());
        StateView<const float> here(memory.backend(), held.data[static_cast<std::size_t>(state)],
                                    count);
        const bool same = std::equal(saved.begin(), saved.end(), here.data());
        INFO(member.parameter.name << ", state " << state);
        CHECK(same);
        ++compared;
        moved += std::ranges::any_of(saved, [](float value) { return value != 0; });
      }
    }
  });
  CHECK(odd > 0);
  CHECK(compared > 20);
  CHECK(moved > compared / 2);
}

TEST_CASE_ON_RANKS("a tensor group that would cut blocks of moments is refused", "[agree][mpi]") {
  if (test_world().size() != 1) return;
  const Model model = small_model("llama");
  Plan plan = base_plan(model, {1, 2, 1});
  moments_of_8_bits(plan);
  CHECK(message_of([&] { lower_small(model, plan); }) ==
        "/parallelism/tensor: moments_precision '8bit' has a scale for every 256 elements, and a "
        "rank would hold 16 neighbouring ones of model.layers.0.self_attn.o_proj.weight; use 1, a "
        "degree that leaves multiples of 256, or moments_precision 'bf16'");
}
