// Tests the bounds by which the planner prunes: they must stay below every simulated step time and
// peak memory.
#include "models/compiler/passes/dataflow/recompute_budget.h"
#include "sim/planner/sweep.h"
#include "tests/catch.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"
#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Compiling and replaying hundreds of plans takes long. Most runs try a third of them
// (tests/one_in.h), and sanitizers, which slow that down tenfold, try a tenth.
const auto thinned = static_cast<std::size_t>(sanitized ? 10 : one_in(3));

}  // namespace

TEST_CASE("the bounds are below what is simulated, the estimates near it") {
  const char* machine = GENERATE("p3.16xlarge", "p4d.24xlarge");
  const int hosts = GENERATE(1, 2);
  json value = job_json(small_model(8, 4), machine, hosts, 32);
  value["training"]["recompute"] = "auto";
  value["training"]["compiler"] = "auto";
  Planned planned(value, machine, hosts);
  const auto& candidates = planned.candidates;
  REQUIRE(candidates.size() > 100);
  for (std::size_t i = 0; i < candidates.size(); i += 31 * thinned) {
    const Prediction prediction = planned.check_bounds(candidates[i]);
    INFO(to_json(to_plan(candidates[i], planned.base)).dump());
    CHECK(planned.bounds.memory(candidates[i]).least_bytes >=
          0.5 * static_cast<double>(prediction.peak_memory_bytes));
  }
}

// The step has one short sequence, so most of it is the optimizer, whose kernels may move fewer
// bytes than are counted.
TEST_CASE("the bounds are below steps that the optimizer fills") {
  json value = job_json("gpt2", "p4d.24xlarge", 1, 8);
  value["training"]["sequence_length"] = 16;
  value["training"]["compiler"] = GENERATE("none", "fused", "full");
  value["cluster"]["host_launch_us"] = 0.001;
  value["cluster"]["processes_per_host"] = 1;
  const Job job = read(value);
  Cluster cluster = make_cluster(job.cluster, "p4d.24xlarge", 1);
  cluster.machine.gpu.kernels.optimizer_traffic = {0.5, 0.5, 0.5};
  const Plan base = base_plan(job, machine_facts("p4d.24xlarge"));
  BoundMaker bounds(job.model, base, cluster);
  const std::vector<Candidate> candidates = enumerate(job, base, cluster.ranks()).candidates();
  REQUIRE(!candidates.empty());
  for (const Candidate& candidate : candidates) {
    const Compiled compiled = compiled_for(job.model, to_plan(candidate, base), cluster);
    INFO(to_json(compiled.plan).dump());
    CHECK(bounds.time(candidate).step_time_s <= predict(compiled, cluster).step_time_s);
  }
}

TEST_CASE("context groups over hosts may exchange heads inside, within the bounds") {
  json value = job_json(small_model(2, 8), "p4d.24xlarge", 2, 4);
  value["model"]["positions"] = 8192;
  value["training"]["sequence_length"] = 8192;
  value["training"]["recompute"] = GENERATE("none", "full");
  value["cluster"]["host_launch_us"] = 0.001;
  value["parallelism"] = {{"context", "auto"}, {"context_exchange", "auto"}, {"tensor", "auto"}};
  const Job job = read(value);
  const Cluster cluster = make_cluster(job.cluster, "p4d.24xlarge", 2);
  const Plan base = base_plan(job, machine_facts("p4d.24xlarge"));
  BoundMaker bounds(job.model, base, cluster);
  std::set<std::tuple<int, int, int>> levels;  // tensor, context, context_heads
  for (const Candidate& candidate : enumerate(job, base, 16, 8).candidates()) {
    if (candidate.context_exchange != ContextExchange::a2a_p2p) continue;
    levels.emplace(candidate.tensor, candidate.context, candidate.context_heads);
    const Compiled compiled = compiled_for(job.model, to_plan(candidate, base), cluster);
    INFO(to_json(compiled.plan).dump());
    CHECK(bounds.time(candidate).step_time_s <= predict(compiled, cluster).step_time_s);
  }
  // A host has eight neighbours, divided by the number of tensor ranks between them.
  CHECK(levels == std::set<std::tuple<int, int, int>>{{1, 16, 8}, {2, 8, 4}, {4, 4, 2}});
  for (const Candidate& candidate : enumerate(job, base, 8, 8).candidates())
    CHECK(candidate.context_exchange != ContextExchange::a2a_p2p);
}

TEST_CASE("the bounds know what waiting for the slowest rank costs") {
  json value = job_json("gpt2", "p4d.24xlarge", 1, 64);
  value["training"]["sequence_length"] = 512;
  const Job job = read(value);
  Cluster cluster = make_cluster(job.cluster, "p4d.24xlarge", 1);
  const Plan base = base_plan(job, machine_facts("p4d.24xlarge"));
  const auto bound = [&](const Candidate& candidate, double of_steps, double of_layers) {
    cluster.machine.gpu.kernels.straggling = of_steps;
    cluster.machine.gpu.kernels.layer_straggling = of_layers;
    BoundMaker bounds(job.model, base, cluster);
    return bounds.time(candidate).step_time_s;
  };
  int alone = 0, cut = 0;
  for (const Candidate& candidate : enumerate(job, base, cluster.ranks()).candidates()) {
    if (candidate.pipeline > 1 || candidate.context > 1 || candidate.zero_stage > 0 ||
        candidate.micro_batch != 8)
      continue;
    INFO(to_json(to_plan(candidate, base)).dump());
    const double equal = bound(candidate, 0, 0);
    CHECK(bound(candidate, 0.05, 0) > 1.05 * equal);  // 10 % of what is computed
    if (candidate.tensor == 1) {
      CHECK(bound(candidate, 0, 0.05) == equal);
      ++alone;
    } else if (candidate.tensor == 2) {
      CHECK(bound(candidate, 0, 0.05) > 1.03 * equal);  // 6 %
      ++cut;
    }
  }
  CHECK(alone > 0);
  CHECK(cut > 0);
}

TEST_CASE("the bounds hold with multi-token prediction, whose blocks repeat their work or not") {
  const json model = {
      {"family", "llama"}, {"hidden", 256}, {"layers", 4}, {"heads", 4}, {"vocab", 1000}};
  json value = job_json(model, "p3.16xlarge", 1, 32);
  value["training"]["mtp_layers"] = 1;
  value["training"]["recompute"] = "auto";
  value["training"]["recompute_fraction"] = "auto";
  Planned planned(value, "p3.16xlarge", 1);
  REQUIRE(planned.candidates.size() > 100);
  int mixed = 0;
  for (std::size_t i = 0; i < planned.candidates.size(); i += 17 * thinned) {
    planned.check_bounds(planned.candidates[i]);
    mixed += planned.candidates[i].recompute_fraction < 1;
  }
  CHECK(mixed > 0);
}

TEST_CASE("the bounds hold where the optimizer's states wait on the host") {
  json value = job_json(small_model(8, 4), "p3.16xlarge", 1, 32);
  value["training"]["precision"] = "fp16";
  value["parallelism"] = {{"pipeline", "auto"},
                          {"tensor", "auto"},
                          {"data", "auto"},
                          {"zero_stage", "auto"},
                          {"offload", "optimizer"}};
  Planned planned(value, "p3.16xlarge", 1);
  REQUIRE(planned.candidates.size() > 50);
  for (std::size_t i = 0; i < planned.candidates.size(); i += 7) {
    INFO(to_json(to_plan(planned.candidates[i], planned.base)).dump());
    CHECK(planned.candidates[i].offload == Offload::optimizer);
    planned.check_bounds(planned.candidates[i]);
  }
}

TEST_CASE(
    "under a budget for recomputation the bounds hold, and what it is too small for is left out") {
  json value = job_json(small_model(8, 4), "p3.16xlarge", 1, 32);
  value["training"]["recompute_budget"] = 0.5;
  Planned planned(value, "p3.16xlarge", 1);
  const auto& candidates = planned.candidates;
  int fitting = 0, too_small = 0;
  for (std::size_t i = 0; i < candidates.size(); i += 7) {
    INFO(to_json(to_plan(candidates[i], planned.base)).dump());
    CHECK(candidates[i].schedule != ScheduleKind::zero_bubble);
    try {
      planned.check_bounds(candidates[i]);
      ++fitting;
    } catch (const BudgetTooSmall&) {
      ++too_small;
    }
  }
  CHECK(fitting > 10);
  CHECK(too_small > 0);  // stages of one block
  const SearchResult result = search(planned.job, few);
  CHECK_FALSE(result.plans.empty());
}

// The models have shared layers, two kinds of blocks, or sequences of images.
TEST_CASE("the bounds of further families are below what is simulated") {
  const char* model = GENERATE("albert-base-v2", "bart-base", "t5-small", "vit-base-patch16-224");
  json value = job_json(model, "p3.16xlarge", 1, 32);
  value["training"]["sequence_length"] = std::string(model).starts_with("vit") ? 197 : 128;
  value["training"]["recompute"] = "auto";
  Planned planned(value, "p3.16xlarge", 1);
  const auto& candidates = planned.candidates;
  int pipelines = 0;
  for (std::size_t i = 0; i < candidates.size(); i += 7 * thinned) {
    INFO(model);
    pipelines += candidates[i].pipeline > 1 ? 1 : 0;
    planned.check_bounds(candidates[i]);
  }
  CHECK(pipelines > 0);
}

// There are blocks of two kinds. If only some blocks are recomputed, there are four.
TEST_CASE("the bounds know which layers stay in bf16") {
  const bool mixed = GENERATE(false, true);
  json value = job_json(small_model(8, 4), "p5.48xlarge", 1, 32);
  value["training"]["precision"] = GENERATE("fp8", "bf16");
  const bool quantized = value["training"]["precision"] == "fp8";
  value["training"]["recompute"] = "auto";
  if (mixed) value["training"]["recompute_fraction"] = "auto";
  value["model"]["hidden"] = 1024;
  if (quantized) {
    value["training"]["first_layers_in_bf16"] = GENERATE(0, 2);
    value["training"]["last_layers_in_bf16"] = GENERATE(1, 4);
  }
  Planned planned(value, "p5.48xlarge", 1);
  const auto& candidates = planned.candidates;
  REQUIRE(candidates.size() > 100);
  int pipelines = 0;
  for (std::size_t i = 0; i < candidates.size(); i += (mixed ? 97 : 41) * thinned) {
    pipelines += candidates[i].pipeline > 1 ? 1 : 0;
    const Prediction prediction = planned.check_bounds(candidates[i]);
    const Bounds bounds = planned.bounds.time(candidates[i]);
    CHECK(bounds.estimate_s >= 0.5 * prediction.step_time_s);
    CHECK(planned.bounds.memory(candidates[i]).least_bytes >=
          0.5 * static_cast<double>(prediction.peak_memory_bytes));
  }
  CHECK(pipelines > 10);
}

TEST_CASE("the bounds are below steps whose sequences several ranks share") {
  json value = job_json(small_model(4, 4), "p4d.24xlarge", 2, 16);
  value["model"]["positions"] = 2048;
  value["training"]["sequence_length"] = 2048;
  value["parallelism"] = {{"context", "auto"}, {"data", "auto"}, {"tensor", "auto"},
                          {"shard", "auto"},   {"pipeline", 1},  {"zero_stage", "auto"}};
  Planned planned(value, "p4d.24xlarge", 2);
  const auto& candidates = planned.candidates;
  int shared = 0;
  for (std::size_t i = 0; i < candidates.size(); i += thinned) {
    shared += candidates[i].context > 1 ? 1 : 0;
    planned.check_bounds(candidates[i]);
  }
  CHECK(shared > 20);
}

TEST_CASE("the loose bounds are below the simulated steps and memory") {
  json value = job_json(small_model(8, 4), "p4d.24xlarge", 2, 32);
  value["training"]["recompute"] = "auto";
  value["training"]["recompute_fraction"] = "auto";
  Planned planned(value, "p4d.24xlarge", 2);
  Swept swept;
  std::int64_t lost = 0;
  for (const Branch& branch : planned.space.branches)
    sweep(branch, planned.bounds, {planned.cluster.device().memory_bytes, 1e9}, swept);
  for (const std::int64_t each : swept.lost) lost += each;
  CHECK(lost + std::ssize(swept.survivors) == planned.space.legal());
  REQUIRE(swept.survivors.size() > 1000);
  for (std::size_t i = 0; i < swept.survivors.size(); i += swept.survivors.size() / 97) {
    const Swept::Survivor& survivor = swept.survivors[i];
    const Prediction prediction = planned.check_bounds(survivor.candidate);
    INFO(to_json(to_plan(survivor.candidate, planned.base)).dump());
    CHECK(survivor.step_time_s <= prediction.step_time_s);
  }
}
