// Tests `plan --for`: it finds plans that the framework can run, and the best of them. Simulating
// all plans and keeping those that the framework can express finds nothing better.
#include <algorithm>

#include "models/compiler/frameworks/framework.h"
#include "models/core/error.h"
#include "sim/planner/search.h"
#include "tests/catch.h"
#include "tests/fuzz/random_job.h"
#include "tests/message_of.h"
#include "tests/sanitized.h"
#include "tools/interop/expressible.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

std::optional<json> small_open_job(fuzz::Random& random) {
  json job = fuzz::random_open_job(random);
  if (job["cluster"]["machine"] == "local") return std::nullopt;
  try {
    const Job read = fuzz::read_random_job(job);
    if (read.model.layers > 3 || read.plan.training.global_batch > 16) return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
  return job;
}

// Returns the result of a search that simulates every plan.
SearchResult all_of(const Job& job) {
  SearchOptions options{.keep_best = 100000,
                        .simulate_at_most = 100000,
                        .simulate_first = 100000,
                        .load = fuzz::load_machine_of_job};
  options.prove_gap = 0;
  return search(job, options);
}

}  // namespace

TEST_CASE("plans for a framework are those that it can run, and the best of them",
          "[interop][release]") {
  const std::string name = GENERATE(from_range(framework_names()));
  const Framework framework = framework_of(name);
  const auto read_job_for = [&](const json& job) {
    Job read = fuzz::read_random_job(job);
    take_ways_of_framework(read);
    return read;
  };
  fuzz::Random random(11);
  int found = 0;
  for (int drawn = 0; drawn < 4000 && found < 4; ++drawn) {
    std::optional<json> job = small_open_job(random);
    if (!job) continue;
    (*job)["training"]["framework"] = name;
    INFO(job->dump());
    try {
      const Job read = read_job_for(*job);
      const SearchResult all = all_of(read);
      if (all.plans.empty()) continue;
      for (const RankedPlan& each : all.plans) {
        const Limit* broken =
            broken_limit(framework, as_run_by(framework, each.plan, read.model), read.model);
        INFO((broken == nullptr ? "" : broken->key));
        CHECK(broken == nullptr);
      }
      const SearchResult quick = search(read, {.keep_best = 1, .load = fuzz::load_machine_of_job});
      REQUIRE(!quick.plans.empty());
      // The quick search reports by how much its best plan may be worse.
      CHECK(quick.plans.front().prediction.step_time_s <=
            all.plans.front().prediction.step_time_s * (1 + quick.proven_gap) * (1 + 1e-12));
      ++found;
    } catch (const InputError&) {
      continue;
    }
  }
  CAPTURE(name);
  CHECK(found >= 1);
}

// With FSDP, accelerate reduces gradients in the type of the weights, so this key follows from the
// others.
TEST_CASE("plans for accelerate reduce gradients as it does, whatever the job says", "[interop]") {
  const json job = {{"model", "gpt2"},
                    {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 1}}},
                    {"training",
                     {{"framework", "accelerate"},
                      {"global_batch", 16},
                      {"micro_batch", 2},
                      {"sequence_length", 1024},
                      {"precision", "bf16"},
                      {"compiler", "full"},
                      {"gradient_reduce_precision", "fp32"}}},
                    {"parallelism", {{"zero_stage", "auto"}, {"placement", "PDT"}}}};
  Job read = fuzz::read_random_job(job);
  take_ways_of_framework(read);
  const auto warned = std::find_if(read.warnings.begin(), read.warnings.end(), [](const auto& one) {
    return one.find(
               "/training/gradient_reduce_precision: accelerate reduces gradients in fp32 with "
               "DDP, in the type of the weights with FSDP; planned so") != std::string::npos;
  });
  CHECK(warned != read.warnings.end());
  bool shards = false, copies = false;
  for (const RankedPlan& each : all_of(read).plans) {
    const Plan& plan = each.plan;
    const bool is_sharded = plan.parallelism.zero_stage == 3;
    (is_sharded ? shards : copies) = true;
    CHECK(plan.training.gradient_reduce == (is_sharded ? Dtype::bf16 : Dtype::f32));
  }
  CHECK(shards);
  CHECK(copies);
}

TEST_CASE("a job whose sharding is decided is told which type gradients are reduced in",
          "[interop]") {
  const json job = {{"model", "gpt2"},
                    {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 1}}},
                    {"training",
                     {{"framework", "accelerate"},
                      {"global_batch", 16},
                      {"micro_batch", "auto"},
                      {"sequence_length", 1024},
                      {"precision", "bf16"},
                      {"compiler", "full"}}},
                    {"parallelism", {{"zero_stage", 3}, {"placement", "PDT"}}}};
  Job read = fuzz::read_random_job(job);
  take_ways_of_framework(read);
  CHECK(read.plan.training.gradient_reduce == Dtype::bf16);
  REQUIRE(!read.warnings.empty());
  CHECK(read.warnings.back().ends_with("FSDP; planned with \"bf16\""));
  CHECK(!all_of(read).plans.empty());
}

TEST_CASE("adapters are planned as adapters, or refused", "[interop]") {
  const auto read = [](const char* framework) {
    Job job = fuzz::read_random_job({{"model", "gpt2"},
                                     {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 1}}},
                                     {"training",
                                      {{"framework", framework},
                                       {"global_batch", 16},
                                       {"micro_batch", "auto"},
                                       {"sequence_length", 1024},
                                       {"lora", {{"rank", 8}, {"target_modules", "all-linear"}}}}},
                                     {"parallelism", "auto"}});
    take_ways_of_framework(job);
    return job;
  };
  for (const char* framework : {"accelerate", "deepspeed"})
    CHECK(read(framework).plan.training.lora.has_value());
  for (const char* framework : {"megatron-lm", "megatron-bridge", "torchtitan", "sagemaker"}) {
    const std::string refusal = message_of([&] { read(framework); });
    CAPTURE(refusal);
    CHECK(refusal.find("training of the whole model only; `--for accelerate`") !=
          std::string::npos);
  }
}

// The planner chooses the number of replicas. With several replicas, torchtitan keeps weights in
// fp32.
TEST_CASE("a way that depends on the replicas is not taken before they are known", "[interop]") {
  Job read = fuzz::read_random_job({{"model", "llama-3-8b"},
                                    {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 1}}},
                                    {"training",
                                     {{"framework", "torchtitan"},
                                      {"global_batch", 16},
                                      {"micro_batch", "auto"},
                                      {"sequence_length", 1024},
                                      {"precision", "bf16"},
                                      {"compiler", "full"}}},
                                    {"parallelism", {{"pipeline", 2}, {"tensor", 2}}}});
  take_ways_of_framework(read);
  CHECK(read.plan.training.master_weights == MasterWeights::fp32);
}

TEST_CASE("contexts that need sharded states are found where sharding is open", "[interop]") {
  Job read = fuzz::read_random_job({{"model", "llama-3-8b"},
                                    {"cluster", {{"machine", "p5.48xlarge"}, {"count", 1}}},
                                    {"training",
                                     {{"framework", "hyperpod"},
                                      {"global_batch", 4},
                                      {"micro_batch", "auto"},
                                      {"sequence_length", 4096},
                                      {"precision", "bf16"},
                                      {"recompute", "full"}}},
                                    {"parallelism", {{"context", 2}, {"zero_stage", "auto"}}}});
  take_ways_of_framework(read);
  const SearchResult found = search(read, {.keep_best = 1, .load = fuzz::load_machine_of_job});
  REQUIRE(!found.plans.empty());
  CHECK(found.plans.front().plan.parallelism.zero_stage == 3);
}
