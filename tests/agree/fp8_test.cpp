// Checks training in fp8, on the ranks that mpirun starts. A CPU rounds to 8 bits as a GPU does,
// and multiplies in fp32.
//
// Each rank scales its own part of a tensor, so tensor degrees round differently, and a sum in
// another order may round one element to its other neighbour. Bounds are those of rounding.h with
// e4m3's unit roundoff u = 2^-4: the terms of a matmul are off by sqrt(2) 0.4 u of themselves,
// which is less than rounding.h allows.
#include <cmath>
#include <map>
#include <string>

#include "tests/agree/rounding.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

// A micro-batch of 4 x 8 rows is a multiple of mxfp8's blocks of 32, and so are 32 and 64 columns.
template <Fp8Recipe recipe>
void rounds(Plan& plan) {
  plan.training.fp8_recipe = recipe;
  plan.training.micro_batch = 4;
  plan.training.global_batch = 16;
}
constexpr Change mxfp8 = rounds<Fp8Recipe::mxfp8>;

void delayed(Plan& plan) { plan.training.fp8_recipe = Fp8Recipe::delayed; }

// Makes only three of eight blocks compute in fp8. The last of two stages has none of them.
void ends_in_bf16(Plan& plan) {
  plan.training.first_layers_in_bf16 = 1;
  plan.training.last_layers_in_bf16 = 4;
}

constexpr Variant fp8_variants[] = {
    {{}, full},
    {{}, pruned},
    {{}, all_of<eager, unfused>},
    {{}, budget<60>},
    {{}, mxfp8},
    {{2, 1, 1}, nothing},
    {{2, 1, 1, 4, 0, 1}, zero_bubble},
    {{1, 2, 1}, nothing},
    {{1, 2, 1}, rows},
    {{1, 2, 1}, all_of<rows, full, pruned>},
    {{1, 1, 2}, nothing},
    {{1, 1, 2, 2, 1}, nothing},
    {{1, 1, 2, 2, 2}, full},
    {{1, 1, 2, 2, 3}, nothing},
    {{1, 1, 2, 2, 3}, full},
    {{2, 1, 1, 4, 0, 2}, nothing},
    {{2, 2, 1}, all_of<rows, full>},
    {{2, 1, 2, 4, 3}, nothing},
    {{1, 2, 2, 2, 1}, rows},
    {{1, 2, 1}, tensor_in_chunks<2>},
    {{1, 2, 1}, all_of<rows, tensor_in_chunks<2>>},
    {{1, 2, 1}, all_of<rows, full, tensor_in_chunks<4>>},
    {{1, 2, 1}, all_of<rows, mxfp8, tensor_in_chunks<2>>},
    {{1, 2, 1}, all_of<mxfp8, tensor_in_chunks<4>>},
    {{2, 2, 1, 4, 0, 2}, all_of<rows, tensor_in_chunks<2>>},
    {{}, all_of<delayed, full>},
    {{}, all_of<delayed, eager, unfused>},
    {{2, 1, 1, 4, 0, 2}, delayed},
    {{1, 2, 1}, delayed},
    {{1, 2, 1}, all_of<delayed, rows, full, pruned>},
    {{1, 1, 2, 2, 1}, delayed},
    {{1, 1, 2, 2, 3}, all_of<delayed, full>},
    {{1, 2, 1}, all_of<delayed, rows, tensor_in_chunks<2>>},
    {{2, 2, 1, 4, 0, 2}, all_of<delayed, rows>},
    {{2, 1, 2, 4, 3}, delayed},
    {{}, all_of<ends_in_bf16, full>},
    {{2, 1, 1}, all_of<ends_in_bf16, delayed>},
    {{2, 1, 1, 4, 0, 2}, ends_in_bf16},
    {{1, 2, 1}, all_of<ends_in_bf16, rows, tensor_in_chunks<2>>},
    {{1, 1, 2, 2, 1}, all_of<ends_in_bf16, mxfp8>},
    {{2, 1, 2, 4, 3}, all_of<ends_in_bf16, full>},
};

struct Alone {
  Values begin;
  Trained in_fp32, in_fp8;
};

}  // namespace

TEST_CASE_ON_RANKS("fp8 trains alike under all degrees, and close to fp32", "[agree][mpi]") {
  World& world = test_world();
  const double u = unit_of(Precision::fp8);
  std::map<std::string, Alone> alone;
  for_each_variant(fp8_variants, world, [&](const Model& model, Plan plan) {
    Plan uncut = on_one_process(plan);
    uncut.training.micro_batch = plan.training.micro_batch;  // the same numbers have one scale
    const Training& t = plan.training;
    Alone& expected =
        alone[std::string(name_of(model.architecture)) +
              fp8_recipe_names()[static_cast<std::size_t>(t.fp8_recipe)] +
              std::to_string(t.global_batch) + (t.has_layers_in_bf16() ? " ends in bf16" : "")];
    if (expected.in_fp8.losses.empty()) {
      expected.begin = SmallRun(model, uncut).parameters();
      expected.in_fp32 = train_alone(model, uncut);
      Plan rounded = uncut;
      rounded.training.precision = Precision::fp8;
      expected.in_fp8 = train_alone(model, rounded);
      const double difference = largest_difference(expected.in_fp8, expected.in_fp32);
      CHECK(difference <= loss_bound * u);
      CHECK(difference > 0);
      CHECK(difference_of_updates(expected.in_fp8, expected.in_fp32, expected.begin) <=
            update_bound * u);
    }
    plan.training.precision = Precision::fp8;
    const Trained got = train(model, plan, world);
    CHECK(largest_difference(got, expected.in_fp8) <= loss_bound * u);
    if (all_are_tried()) CHECK(train(model, plan, world) == got);
    if (world.rank() != 0) return;
    CHECK(difference_of_updates(got, expected.in_fp8, expected.begin) <= update_bound * u);
  });
}

// A backward pass that recomputes a tensor must round it to the same bits as the forward pass.
TEST_CASE_ON_RANKS("what is recomputed is rounded to the same 8 bits", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() > 1) return;
  const Model model = eight_blocks("llama");
  Plan plan = base_plan(model, {});
  plan.training.precision = Precision::fp8;
  const std::string kept = train(model, plan, world).hash;
  plan.training.recompute = Recompute::full;
  CHECK(train(model, plan, world).hash == kept);
  plan.training.precision = Precision::bf16;
  CHECK(train(model, plan, world).hash != kept);
}

// A rank rounds its shard with the scale of the whole weight, so the gathered bits are the same.
TEST_CASE_ON_RANKS("a gather in 8 bits gives the same bits as rounding after a gather in 16 bits",
                   "[agree][mpi]") {
  World& world = test_world();
  struct Case {
    const char* family;
    SmallDegrees degrees;
    Change change;
  };
  for (const auto& [family, degrees, change] : {
           Case{"llama", {1, 1, 2, 2, 3}, nothing},
           Case{"gpt", {1, 1, 2, 2, 3}, full},
           Case{"llama", {1, 1, 2, 2, 3}, all_of<eager, unfused>},
           Case{"llama", {1, 1, 2, 2, 3}, ends_in_bf16},
           Case{"llama", {1, 1, 2, 2, 3}, reduced_last},
           Case{"mixtral", {1, 1, 2, 2, 3}, nothing},
           Case{"llama", {2, 1, 2, 4, 3}, nothing},
           Case{"llama", {1, 2, 2, 2, 3}, rows},
           Case{"gpt", {1, 1, 4, 4, 3}, nothing},
       }) {
    if (ranks_of(degrees) != world.size()) continue;
    const bool has_experts = std::string(family) == "mixtral";
    const Model model = has_experts ? small_model(family) : eight_blocks(family);
    for (const bool keeps : {false, true}) {
      Plan plan = base_plan(model, degrees);
      change(plan);
      plan.training.precision = Precision::fp8;
      plan.training.fp8_experts = has_experts;
      plan.parallelism.keeps_gathered = keeps;
      INFO(describe(plan));
      const Trained in_16 = train(model, plan, world);
      plan.training.fp8_gathers = true;
      const Trained in_8 = train(model, plan, world);
      CHECK(in_8.losses == in_16.losses);
      CHECK(in_8.hash == in_16.hash);
    }
  }
}

// Delayed scales come from the largest elements on all ranks that hold parts of a tensor or see
// other sequences.
TEST_CASE_ON_RANKS("delayed scales remember the largest elements of all ranks", "[agree][mpi]") {
  World& world = test_world();
  const Model model = eight_blocks("llama");
  const auto histories_of = [&](Plan plan, World* of) {
    plan.training.precision = Precision::fp8;
    delayed(plan);
    if (of == nullptr) {
      SmallRun alone(model, plan);
      train(alone);
      return alone.runtime.histories();
    }
    SmallRun run(model, plan, *of);
    train(run);
    return run.runtime.histories();
  };
  for (const SmallDegrees& degrees :
       {SmallDegrees{1, 2, 1}, SmallDegrees{1, 1, 2, 2, 1}, SmallDegrees{2, 1, 1},
        SmallDegrees{2, 2, 1}, SmallDegrees{2, 1, 2, 4, 3}}) {
    if (degrees.pipeline * degrees.tensor * degrees.data != world.size()) continue;
    Plan plan = base_plan(model, degrees);
    plan.training.steps = 3;
    plan.parallelism.sequence_parallel = degrees.tensor > 1;
    const Histories found = histories_of(plan, &world);
    if (world.rank() != 0) continue;
    const Histories expected = histories_of(on_one_process(plan), nullptr);
    CHECK(found.size() == 8 * (4 + 7 + 7));
    REQUIRE(found.size() == expected.size());
    for (const auto& [name, largest] : expected) {
      INFO(name);
      REQUIRE(found.contains(name));
      REQUIRE(largest.size() == 3);
      REQUIRE(found.at(name).size() == 3);
      // Other degrees round in other places, so the largest elements may differ as much as single
      // elements.
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(found.at(name)[i] == Approx(largest[i]).epsilon(4 * unit_of(Precision::fp8)));
    }
  }
}

// Each expert has 4 sequences of 4 slots, a multiple of 16. A tensor with one scale holds all
// experts of a rank. So only delayed scales, which come from all ranks, are the same if ranks share
// the experts.
TEST_CASE_ON_RANKS("experts in 8 bits train alike under all degrees, and close to fp32",
                   "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  for (const SmallDegrees& degrees :
       {SmallDegrees{}, SmallDegrees{2, 1, 1}, SmallDegrees{1, 1, 2, 2, 1},
        SmallDegrees{1, 1, 2, 2, 3}, SmallDegrees{2, 1, 2, 2, 0}}) {
    if (ranks_of(degrees) != world.size()) continue;
    Plan plan = base_plan(model, degrees);
    plan.training.optimizer = OptimizerKind::sgd;
    plan.training.micro_batch = 4;
    plan.training.global_batch = 16;
    plan.parallelism.expert = degrees.data;
    Plan uncut = on_one_process(plan);
    uncut.training.micro_batch = 4;
    const Trained in_fp32 = train_alone(model, uncut);
    plan.training.precision = uncut.training.precision = Precision::fp8;
    plan.training.fp8_recipe = uncut.training.fp8_recipe = Fp8Recipe::delayed;
    const Trained in_bf16 = train_alone(model, uncut);  // the experts
    plan.training.fp8_experts = uncut.training.fp8_experts = true;
    const Trained alone = train_alone(model, uncut);
    INFO(describe(plan));
    const double u = unit_of(Precision::fp8);
    CHECK(largest_difference(alone, in_bf16) > 0);
    CHECK(largest_difference(alone, in_fp32) <= loss_bound * u);
    const Trained got = train(model, plan, world);
    CHECK(largest_difference(got, alone) <= loss_bound * u);
  }
}
