// Checks that sharded data parallelism in all its settings trains the model that one process
// trains. The settings are small parameters that stay whole, caps on gathered parameters, buckets
// inside units, shard groups, and whole parameters with owners, each with gradient accumulation,
// tensor slices and stages.
#include <map>
#include <string>
#include <vector>

#include "models/program/program.h"
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"

using namespace meshwright::tests;

namespace {

std::string describe_sharding(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return describe(plan) + (p.shard_whole ? " whole" : "") + " shard " + std::to_string(p.shard) +
         " persistence " + std::to_string(p.persistence_threshold) + " live " +
         std::to_string(p.max_live_parameters) + " bucket " +
         std::to_string(p.reduce_bucket_bytes) + " micro " +
         std::to_string(plan.training.micro_batch);
}

Plan sgd_plan(const Model& model, SmallDegrees degrees) {
  Plan plan = base_plan(model, degrees);
  plan.training.optimizer = OptimizerKind::sgd;
  plan.parallelism.reduce_bucket_bytes = 0;
  return plan;
}

// Returns every `step`th plan of the product of all settings, so that all values of each setting
// meet those of the others. The blocks of the small models have 8,500 elements, their biases and
// norms 32 to 96, and their matrices 1,024 to 3,072.
std::vector<Plan> sampled(const Model& model, int ranks, int step) {
  std::vector<Plan> plans;
  int turn = 0;
  for (int zero : {2, 3})
    for (int tensor : {1, 2})
      for (int shard : {1, 2})
        for (std::int64_t persistence : {0, 100, 1100})
          for (std::int64_t live : {0, 1, 20'000, 1'000'000})
            for (std::int64_t bucket : {0, 5'000})
              for (int micro_batch : {1, 2}) {
                const int data = ranks / tensor;
                if (data == 1 || (shard > 1 && shard == data)) continue;
                if (zero == 2 && (persistence > 0 || live > 0)) continue;
                if (turn++ % step != 0) continue;
                Plan plan = sgd_plan(model, {1, tensor, data, 1, zero});
                Parallelism& p = plan.parallelism;
                p.shard = shard;
                p.persistence_threshold = persistence;
                p.max_live_parameters = live;
                p.reduce_bucket_bytes = bucket;
                p.sequence_parallel = tensor > 1 && turn % 2 == 0;
                p.overlap_gradients = turn % 5 != 0;
                p.overlap_parameters = turn % 7 != 0;
                plan.training.recompute = turn % 3 == 0 ? Recompute::full : Recompute::none;
                plan.training.micro_batch = micro_batch;
                plans.push_back(plan);
              }
  return plans;
}

struct Whole {
  SmallDegrees degrees;
  bool rows = false, overlap = true;
};
constexpr Whole whole_on_2[] = {{{1, 1, 2, 4, 1}}, {{1, 1, 2, 4, 1}, false, false}};
constexpr Whole whole_on_4[] = {
    {{1, 1, 4, 1, 1}},
    {{1, 2, 2, 4, 1}},
    {{1, 2, 2, 4, 1}, true},
    {{2, 1, 2, 4, 1}},
    {{2, 1, 2, 4, 1, 2}},
    {{2, 1, 2, 4, 1}, false, false},
    {{1, 2, 2, 4, 1}, true, false},
};

std::vector<Plan> whole_plans(const Model& model, int ranks) {
  std::vector<Plan> plans;
  const auto add = [&](const Whole& whole) {
    Plan plan = sgd_plan(model, whole.degrees);
    plan.parallelism.shard_whole = true;
    plan.parallelism.sequence_parallel = whole.rows;
    plan.parallelism.overlap_gradients = whole.overlap;
    for (std::int64_t bucket : {0, 5'000}) {
      plan.parallelism.reduce_bucket_bytes = bucket;
      plans.push_back(plan);
    }
  };
  if (ranks == 2)
    for (const Whole& whole : whole_on_2) add(whole);
  if (ranks == 4)
    for (const Whole& whole : whole_on_4) add(whole);
  return plans;
}

void check_all(const Model& model, const std::vector<Plan>& plans, World& world) {
  const Trained expected = train_alone(model, on_one_process(plans.front()));
  for (const Plan& plan : plans) {
    INFO(name_of(model.architecture) << " " << describe_sharding(plan));
    const Trained got = train(model, plan, world);
    compare_losses(got, expected);
    if (world.rank() == 0) compare_each(got, expected);
  }
}

}  // namespace

TEST_CASE_ON_RANKS("sharded data parallelism trains alike in all its settings", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = eight_blocks(family);
    const std::vector<Plan> plans = sampled(model, world.size(), world.size() == 2 ? 7 : 17);
    CHECK(plans.size() > 5);
    check_all(model, plans, world);
  }
}

TEST_CASE_ON_RANKS("whole parameters with owners train alike", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = eight_blocks(family);
    check_all(model, whole_plans(model, world.size()), world);
  }
}

TEST_CASE_ON_RANKS("every rank allocates what the plan says that it needs", "[agree][mpi]") {
  World& world = test_world();
  const Model model = eight_blocks("gpt");
  for (Plan plan : whole_plans(model, world.size())) {
    plan.training.optimizer = OptimizerKind::adamw;
    INFO(describe_sharding(plan));
    SmallRun run(model, plan, world);
    const std::vector<std::int64_t> allocated =
        run.runtime.gather_of_all(run.runtime.arena_bytes());
    std::map<int, std::int64_t> most;  // by stage
    for (int rank = 0; rank < world.size(); ++rank) {
      const Coordinates at = run.mesh.coordinates(rank);
      const MemoryPlan& memory = run.stages[static_cast<std::size_t>(at.pipeline)].memory;
      const std::int64_t bytes = allocated[static_cast<std::size_t>(rank)];
      CHECK(bytes == memory.arena_bytes_of(at.rdp, at.tensor));
      most[at.pipeline] = std::max(most[at.pipeline], bytes);
    }
    for (const auto& [stage, bytes] : most)
      CHECK(bytes == run.stages[static_cast<std::size_t>(stage)].memory.arena_bytes);
  }
}
