// Checks that any legal degrees train the model that one process trains (design: what must hold,
// 1): 20 steps in fp32 with every schedule, recomputation, sharding and sequence parallelism, on
// the ranks that mpirun starts.
#include <map>
#include <string>
#include <vector>

#include "models/compiler/schedule/schedule.h"
#include "tests/agree/variants.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

// Returns plans with every schedule that does not split backward passes. The others are tested in
// zero_bubble_test.cpp.
std::vector<Plan> schedules_of(const Model& model, SmallDegrees degrees) {
  if (degrees.pipeline == 1) return {base_plan(model, degrees)};
  std::vector<Plan> plans;
  for (const ScheduleInfo& schedule : schedule_kinds()) {
    if (schedule.splits_backwards) continue;
    degrees.virtual_stages = schedule.most_chunks > 1 ? 2 : 1;
    plans.push_back(base_plan(model, degrees));
    plans.back().parallelism.schedule = schedule.kind;
  }
  return plans;
}

std::vector<Plan> plans_on(int ranks, const Model& model) {
  std::vector<Plan> plans;
  for (int pipeline : {1, 2, 4})
    for (int tensor : {1, 2, 4})
      for (int data : {1, 2})
        for (int zero : {0, 1})
          for (bool rows : {false, true})
            for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
              if (pipeline * tensor * data != ranks || (zero > 0 && data == 1) ||
                  (rows && tensor == 1))
                continue;
              for (Plan plan : schedules_of(model, {pipeline, tensor, data, 4, zero, 1})) {
                plan.training.recompute = recompute;
                plan.parallelism.sequence_parallel = rows;
                plans.push_back(plan);
              }
            }
  return plans;
}

void check_parity(const std::string& family) {
  World& world = test_world();
  const Model model = eight_blocks(family);
  std::map<OptimizerKind, Trained> expected;
  for (OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    Plan alone = on_one_process(base_plan(model, {}));
    alone.training.optimizer = kind;
    expected[kind] = train_alone(model, alone);
    CHECK(expected[kind].losses.back() != expected[kind].losses.front());
  }
  const std::vector<Plan> plans = plans_on(world.size(), model);
  CHECK(!plans.empty());
  int turn = family == "gpt" ? 0 : 1;
  for (Plan plan : plans) {
    if (!is_tried(++turn, 2)) continue;
    INFO(family << " " << describe(plan));
    const Trained adamw = train(model, plan, world);
    const Trained again = train(model, plan, world);
    plan.training.optimizer = OptimizerKind::sgd;
    const Trained sgd = train(model, plan, world);
    compare_losses(adamw, expected[OptimizerKind::adamw]);
    compare_losses(sgd, expected[OptimizerKind::sgd]);
    CHECK(adamw.losses == again.losses);
    if (world.rank() != 0) continue;
    CHECK(adamw.hash == again.hash);
    compare_all(adamw, expected[OptimizerKind::adamw]);
    compare_each(sgd, expected[OptimizerKind::sgd]);
  }
}

void whole_messages(Plan& plan) { plan.parallelism.pipeline_scatter_gather = false; }
void one_bucket(Plan& plan) { plan.parallelism.reduce_bucket_bytes = 1 << 30; }

// Variants on four ranks that the product of degrees and schedules does not reach.
constexpr Variant parity_variants[] = {
    {{2, 2, 1}, whole_messages},
    {{2, 1, 2}, nothing_overlaps},
    {{1, 2, 2, 4, 1}, nothing_overlaps},
    {{1, 1, 4, 1, 3}, nothing_overlaps},
    {{2, 2, 1}, tensor_overlaps},
    {{1, 1, 4, 1, 1}, in_pairs},
    {{1, 1, 4, 1, 2}, in_pairs},
    {{1, 1, 4, 1, 3}, in_pairs},
    {{2, 1, 2, 4, 2}, nothing},
    {{2, 1, 2, 4, 3}, nothing},
    {{1, 2, 2, 4, 2}, rows},
    {{1, 2, 2, 4, 3}, rows},
    {{2, 1, 2, 4, 3, 2}, nothing},
    {{1, 1, 4, 4, 0}, reduced_each},
    {{1, 1, 4, 4, 0}, all_of<reduced_each, nothing_overlaps>},
    {{2, 1, 2, 4, 0, 2}, reduced_each},
    {{1, 2, 2, 4, 0}, all_of<reduced_each, rows>},
    {{1, 1, 4, 4, 1}, reduced_each},
    {{2, 1, 2, 4, 2}, reduced_each},
    {{1, 1, 4, 4, 2}, reduced_last},
    {{1, 1, 4, 4, 2}, all_of<reduced_last, in_pairs>},
    {{2, 1, 2, 4, 2}, zero_bubble},
    {{1, 1, 4, 4, 3}, reduced_last},
    {{1, 1, 4, 4, 3}, keeps_gathered},
    {{1, 1, 4, 4, 3}, all_of<keeps_gathered, reduced_last, full>},
    {{1, 1, 4, 4, 3}, all_of<keeps_gathered, pruned>},
    {{1, 2, 2, 4, 3}, all_of<keeps_gathered, nothing_overlaps, rows>},
    {{2, 1, 2, 4, 3, 2}, keeps_gathered},
    {{2, 1, 2, 4, 3, 2}, all_of<keeps_gathered, reduced_last>},
    {{1, 2, 2}, one_bucket},
    {{4, 1, 1}, few_active},
    {{2, 2, 1}, all_of<full, of_blocks<50>>},
    {{2, 2, 1}, all_of<full, pruned>},
    {{1, 4, 1}, unfused},
    {{2, 2, 1}, placed<1>},
    {{2, 1, 2}, placed<2>},
    {{1, 2, 2}, placed<3>},
    {{2, 2, 1}, placed<4>},
    {{2, 1, 2}, placed<5>},
    {{2, 2, 1}, placed<7>},
};

}  // namespace

TEST_CASE_ON_RANKS("unusual ways of parallelizing a model give the same training", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(parity_variants, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}

// No job may ask for gpipe with several chunks. Both stages forward four micro-batches to each
// other, and neither can forward its next one before the other has received the ones before.
TEST_CASE("a stage receives while it waits for others to receive", "[agree]") {
  const Model model = small_model("gpt");
  Plan plan = in_few_steps(small_plan(model, {.pipeline = 2, .virtual_stages = 2}), 2);
  Plan crossing = plan;
  plan.parallelism.schedule = ScheduleKind::interleaved;
  crossing.parallelism.schedule = ScheduleKind::gpipe;
  run_in_turn(2, [&] {
    SmallRun usual(model, plan, world_in_turn()), other(model, crossing, world_in_turn());
    CHECK(broken_rule(other.stages) == "");
    CHECK(train(other) == train(usual));
  });
}

TEST_CASE_ON_RANKS("chunks that share slots train it alike", "[agree][mpi][slots]") {
  World& world = test_world();
  if (world.size() != 4) return;
  for (const char* family : {"gpt", "llama"})
    for (const SmallDegrees degrees : {SmallDegrees{2, 2, 1, 8, 0, 4}, {4, 1, 1, 8, 0, 2}}) {
      Model model = eight_blocks(family);
      model.layers = 14;  // two units for each of eight virtual stages
      Plan plan = base_plan(model, degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      plan.training.micro_batch = 1;
      INFO(family << " " << describe(plan));
      int shared = 0;
      for (const Program& program : lower_small(model, plan))
        for (int chunk = 0; chunk < degrees.virtual_stages; ++chunk)
          shared += program.memory.pool_of(chunk) != chunk;
      CHECK(shared > 0);
      check_plan(model, plan, world);
    }
}

TEST_CASE_ON_RANKS("other families and uneven stages train alike", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 4) return;
  for (const Model& model : other_models())
    for (const SmallDegrees degrees :
         {SmallDegrees{2, 2, 1}, SmallDegrees{4, 1, 1}, SmallDegrees{1, 2, 2, 2, 1}}) {
      Plan plan = base_plan(model, degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      plan.parallelism.sequence_parallel = degrees.tensor > 1;
      INFO(name_of(model.architecture) << " " << describe(plan));
      check_plan(model, plan, world);
    }
}

namespace {

// Partitions a model into four chunks, of which the last is only the head, without the norm before
// it.
void head_alone(Plan& plan) {
  plan.parallelism.partitioner = Partitioner::manual;
  plan.parallelism.manual_stage = {
      {"transformer.wte", 0}, {"transformer.h.0", 1}, {"transformer.h.1", 2}, {"lm_head", 3}};
}
void evenly(Plan& plan) { plan.parallelism.partitioner = Partitioner::even; }

constexpr Variant of_two_blocks[] = {
    {{4, 1, 1}, evenly},
    {{4, 1, 1}, all_of<head_alone, pruned>},
    {{4, 1, 1}, all_of<head_alone, full>},
    {{4, 1, 1}, all_of<head_alone, eager>},
    {{4, 1, 1}, all_of<evenly, gpipe, pruned>},
    {{4, 1, 1}, all_of<head_alone, zero_bubble>},
    {{4, 1, 1}, all_of<head_alone, zero_bubble, pruned>},
    {{2, 2, 1, 4, 0, 2}, all_of<head_alone, rows>},
    {{2, 1, 2, 4, 1, 2}, all_of<head_alone, pruned>},
    {{2, 1, 2, 4, 2, 2}, head_alone},
    {{2, 1, 2, 4, 3, 2}, all_of<head_alone, pruned>},
    {{2, 1, 2, 4, 3, 2}, all_of<head_alone, keeps_gathered, pruned>},
    {{2, 1, 2, 4, 3, 2}, all_of<evenly, keeps_gathered, reduced_last, full>},
};

}  // namespace

TEST_CASE_ON_RANKS("an embedding and a head with a chunk of their own train alike",
                   "[agree][mpi]") {
  World& world = test_world();
  for (const bool tied : {true, false})
    for (const Variant& variant : of_two_blocks) {
      if (ranks_of(variant.degrees) != world.size()) continue;
      Model model = eight_blocks("gpt");
      model.layers = 2;
      model.tied_embeddings = tied;
      Plan plan = base_plan(model, variant.degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      variant.change(plan);
      INFO((tied ? "tied " : "") << describe(plan));
      verify(plan, model.sizes());
      check_plan(model, plan, world);
    }
}

TEST_CASE_ON_RANKS("a GPT trains alike under all degrees", "[agree][mpi]") { check_parity("gpt"); }

TEST_CASE_ON_RANKS("a Llama trains alike under all degrees", "[agree][mpi]") {
  check_parity("llama");
}
