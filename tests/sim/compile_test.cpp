#include <nlohmann/json.hpp>

#include "models/core/fields.h"
#include "models/job/job.h"
#include "sim/compile/compile.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"

using namespace meshwright;
using nlohmann::json;

namespace {

struct Case {
  Job job;
  Cluster cluster;
  Plan plan;  // with its stages
};

Case case_of(const json& parallelism, const std::string& machine) {
  const json value = {{"model", "gpt2"},
                      {"training",
                       {{"global_batch", 32},
                        {"micro_batch", 2},
                        {"sequence_length", 512},
                        {"attention", "unfused"}}},
                      {"cluster", {{"machine", machine}}},
                      {"parallelism", parallelism}};
  Case made{read_job(value, "job.json", ".", machine_facts), {}, {}};
  made.cluster = make_cluster(made.job.cluster, machine, 1);
  const Plan plan = settle(made.job, made.cluster.ranks(), machine_facts(machine));
  made.plan = prepare(made.job.model, plan, made.cluster).plan;
  return made;
}

std::int64_t peak_with(const Case& made, const Plan& plan, int micro_batch) {
  const Prepared prepared =
      prepare(made.job.model, with_micro_batch(plan, micro_batch), made.cluster);
  return predict(prepared, made.cluster).peak_memory_bytes;
}

}  // namespace

TEST_CASE("the largest micro-batch fits, and one more does not", "[sim][compile]") {
  const json parallelism =
      GENERATE(json{{"pipeline", 1}}, json{{"pipeline", 2}, {"data", 2}},
               json{{"tensor", 4}, {"sequence_parallel", true}},
               json{{"tensor", 2}, {"tensor_batch", "own"}, {"zero_stage", 1}});
  const Case made = case_of(parallelism, "p3.8xlarge");
  const int granule = parallelism.contains("tensor_batch") ? 2 : 1;
  const auto limit = static_cast<std::int64_t>(made.cluster.device().memory_bytes);
  for (const CompilerLevel level :
       {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
    Plan plan = made.plan;
    plan.training.compiler = level;
    const LargestBatch largest = largest_micro_batch(made.job.model, plan, made.cluster);
    CAPTURE(parallelism.dump(), static_cast<int>(level), largest.micro_batch);
    REQUIRE(largest.micro_batch > 1);
    CHECK(largest.micro_batch % granule == 0);
    CHECK(peak_with(made, plan, largest.micro_batch) == largest.peak_memory_bytes);
    CHECK(largest.peak_memory_bytes <= limit);
    CHECK(peak_with(made, plan, largest.micro_batch + granule) > limit);
  }
}

TEST_CASE("a model beyond the machine has no largest batch", "[sim][compile]") {
  Case made = case_of({{"pipeline", 1}}, "p3.8xlarge");
  made.cluster.machine.gpu.memory_bytes = 1e9;
  CHECK(largest_micro_batch(made.job.model, made.plan, made.cluster).micro_batch == 0);
}

TEST_CASE("every level reports its step and its passes", "[sim][compile]") {
  const Case made = case_of({{"pipeline", 2}, {"tensor", 2}}, "p3.8xlarge");
  const LevelReport fused =
      compile_at(CompilerLevel::fused, made.job.model, made.plan, made.cluster);
  const LevelReport full = compile_at(CompilerLevel::full, made.job.model, made.plan, made.cluster);
  CHECK(full.passes.size() > fused.passes.size());
  CHECK(full.step.kernels < fused.step.kernels);
  for (const LevelReport* report : {&fused, &full}) {
    CHECK(report->step.bytes > 0);
    CHECK(report->prediction.step_time_s > 0);
    // Each pass begins with what the one before it left; the last leaves what is lowered.
    for (std::size_t i = 1; i < report->passes.size(); ++i)
      CHECK(report->passes[i].before == report->passes[i - 1].after);
    const CostModel cost(made.cluster, report->prepared.plan.training);
    CHECK(report->passes.back().after == size_of(report->prepared.graph, cost));
    CHECK(report->passes.back().after.kept_bytes > 0);
  }
}

TEST_CASE("learning rates for a larger batch", "[sim][compile]") {
  CHECK(linear_learning_rate(1e-4, 4) == Approx(4e-4));
  CHECK(square_root_learning_rate(1e-4, 4) == Approx(2e-4));
}
