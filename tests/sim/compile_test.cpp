#include <algorithm>
#include <nlohmann/json.hpp>

#include "hwprofiles/load.h"
#include "models/core/fields.h"
#include "models/job/job.h"
#include "sim/compile/compile.h"
#include "sim/planner/clusters.h"
#include "sim/planner/search.h"
#include "sim/validate/largest_batch.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/sim/compiled.h"

using namespace meshwright::tests;
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
  made.plan = compiled_for(made.job.model, plan, made.cluster).plan;
  return made;
}

std::int64_t peak_with(const Case& made, const Plan& plan, int micro_batch) {
  const Compiled compiled =
      compiled_for(made.job.model, with_micro_batch(plan, micro_batch), made.cluster);
  return predict(compiled, made.cluster).peak_memory_bytes;
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

TEST_CASE("the search finds what fits only where memory is saved", "[sim][compile]") {
  json value = {{"model", "gpt2"},
                {"training",
                 {{"global_batch", 8},
                  {"micro_batch", 8},
                  {"sequence_length", 512},
                  {"attention", "flash"},
                  {"compiler", "full"}}},
                {"cluster", {{"machine", "p3.2xlarge"}}},
                {"parallelism", json::object()}};
  const Job closed = read_job(value, "job.json", ".", machine_facts);
  Cluster cluster = make_cluster(closed.cluster, "p3.2xlarge", 1);
  const Plan plan = settle(closed, 1, machine_facts("p3.2xlarge"));
  const auto peak_of = [&](const Plan& given) {
    return predict(compiled_for(closed.model, given, cluster), cluster).peak_memory_bytes;
  };
  const std::int64_t least = peak_of(taking_least_memory(plan));
  REQUIRE(least < peak_of(plan));
  CHECK(peak_of(plan) == peak_of(taking_most_memory(plan)));

  value["training"]["micro_batch"] = "auto";
  SearchOptions options;
  options.load = [&](const std::string& name) {
    Machine machine = load_known_machine(name);
    machine.gpu.memory_bytes = static_cast<double>(least);
    return machine;
  };
  const SearchResult found = search(read_job(value, "job.json", ".", machine_facts), options);
  const auto whole = std::ranges::find_if(
      found.plans, [](const RankedPlan& each) { return each.plan.training.micro_batch == 8; });
  REQUIRE(whole != found.plans.end());
  CHECK(whole->plan.training.rematerialize_rows == true);
  CHECK(whole->prediction.peak_memory_bytes == least);
  // Compiling the found plan gives the same memory, although more memory should now be left free.
  cluster = whole->cluster;
  CHECK(peak_of(whole->plan) == least);
  // If the choice is left to the compiler, it saves memory before the device is completely full.
  cluster.machine.gpu.memory_bytes = 1.01 * static_cast<double>(peak_of(taking_most_memory(plan)));
  CHECK(peak_of(plan) < peak_of(taking_most_memory(plan)));
  CHECK(compiled_for(closed.model, plan, cluster).plan.training.rematerialize_rows == false);
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
    // Each pass begins with the graph that the pass before it left, and the last pass leaves the
    // graph that is lowered.
    for (std::size_t i = 1; i < report->passes.size(); ++i)
      CHECK(report->passes[i].before == report->passes[i - 1].after);
    const CostModel cost(made.cluster, report->compiled.plan.training);
    CHECK(report->passes.back().after == size_of(report->compiled.graph, cost));
    CHECK(report->passes.back().after.kept_bytes > 0);
  }
}

TEST_CASE("learning rates for a larger batch", "[sim][compile]") {
  CHECK(linear_learning_rate(1e-4, 4) == Approx(4e-4));
  CHECK(square_root_learning_rate(1e-4, 4) == Approx(2e-4));
}

namespace {

json bert_job(const std::string& machine, const std::string& memory_of) {
  return {{"model", "bert-base-uncased"},
          {"training",
           {{"global_batch", 256},
            {"micro_batch", 1},
            {"sequence_length", 128},
            {"predicted_positions", 128},
            {"precision", "fp16"},
            {"dropout", 0.1},
            {"memory_of", memory_of}}},
          {"cluster", {{"machine", machine}}}};
}

Job read(const json& value) { return read_job(value, "job.json", ".", machine_facts); }

std::string refusal_of(json value, const std::string& pointer, const json& setting) {
  value[json::json_pointer(pointer)] = setting;
  return message_of([&] { read(value); });
}

}  // namespace

TEST_CASE("a job that means a framework's memory gets its largest batch", "[sim][compile]") {
  LargestBatchRow row;
  row.id = "row", row.model = "bert-base-uncased", row.precision = "fp16";
  row.sequence_length = 128;
  for (const char* machine : {"p3.2xlarge", "p3.16xlarge", "g5.4xlarge"}) {
    row.machine = machine;
    const BatchPrediction published = predict_largest_batch(row, load_machine(machine));
    for (const auto& [word, expected] :
         {std::pair{"pytorch", published.native}, {"xla", published.compiled}}) {
      const Job job = read(bert_job(machine, word));
      const Cluster cluster = make_cluster(job.cluster, load_machine(machine), 1);
      const Plan plan = settle(job, cluster.ranks(), facts_of(cluster.machine));
      CHECK(plan.training.attention == AttentionKernel::unfused);
      const auto fits = [&](int micro_batch) {
        const Plan other = with_micro_batch(plan, micro_batch);
        return predict(compiled_for(job.model, other, cluster), cluster,
                       {.framework = framework_use(job.model, other.training, cluster)})
            .fits;
      };
      INFO(machine << " " << word << " " << expected);
      CHECK(largest_framework_batch(job.model, plan, cluster).micro_batch == expected);
      CHECK(fits(expected));
      CHECK_FALSE(fits(expected + 1));
    }
    const Job own = read(bert_job(machine, "engine"));
    const Cluster cluster = make_cluster(own.cluster, load_machine(machine), 1);
    const Plan plan = settle(own, cluster.ranks(), facts_of(cluster.machine));
    const auto beside = framework_batches(own.model, plan, cluster);
    REQUIRE(beside.size() == 2);
    CHECK(beside[0].largest.micro_batch == published.native);
    CHECK(beside[1].largest.micro_batch == published.compiled);
    CHECK(largest_micro_batch(own.model, plan, cluster).micro_batch > published.compiled);
  }
}

TEST_CASE("plans are looked for in the memory that is meant", "[sim][compile]") {
  const auto largest_found = [](const std::string& memory_of) {
    json value = bert_job("p3.2xlarge", memory_of);
    value["training"]["micro_batch"] = "auto";
    value["parallelism"] = "auto";
    int largest = 0;
    for (const RankedPlan& ranked : search(read(value)).plans) {
      CHECK(ranked.prediction.fits);
      CHECK(ranked.prediction.framework.has_value() == (memory_of != "engine"));
      largest = std::max(largest, ranked.plan.training.micro_batch);
    }
    return largest;
  };
  LargestBatchRow row;
  row.id = "row", row.model = "bert-base-uncased", row.precision = "fp16";
  row.sequence_length = 128, row.machine = "p3.2xlarge";
  const int native = predict_largest_batch(row, load_machine(row.machine)).native;
  CHECK(largest_found("pytorch") <= native);
  CHECK(2 * largest_found("pytorch") > native);  // micro-batches divide the batch of 256
  CHECK(largest_found("engine") > native);
}

TEST_CASE("a framework's memory is refused where it is not known", "[sim][compile]") {
  const json job = bert_job("p3.16xlarge", "pytorch");
  const std::string unknown = "job.json: /training/memory_of: what 'pytorch' holds is known of ";
  for (const char* degree : {"pipeline", "tensor", "zero_stage"}) {
    CAPTURE(degree);
    CHECK(refusal_of(job, std::string("/parallelism/") + degree, degree[0] == 'z' ? 1 : 2) ==
          unknown + "data parallelism alone (zero_stage 0); use that, or 'engine'");
  }
  CHECK(refusal_of(job, "/training/precision", "fp32") ==
        unknown + "precision fp16 or bf16; use that, or 'engine'");
  CHECK(refusal_of(job, "/training/optimizer", "lamb") ==
        unknown + "optimizer adamw or adam; use that, or 'engine'");
  CHECK(refusal_of(job, "/training/attention", "flash") ==
        unknown + "attention 'unfused'; use that, or 'engine'");
  CHECK(refusal_of(job, "/training/recompute", "full") ==
        unknown + "no recomputation and no offloading; use that, or 'engine'");
  const Job elsewhere = read(bert_job("p5.48xlarge", "xla"));
  const Cluster cluster = make_cluster(elsewhere.cluster, load_machine("p5.48xlarge"), 1);
  const Plan plan = settle(elsewhere, cluster.ranks(), facts_of(cluster.machine));
  CHECK(message_of([&] { framework_use(elsewhere.model, plan.training, cluster); }) ==
        "/training/memory_of: the profile of p5.48xlarge does not say what a framework finds of "
        "its memory; use 'engine'");
  CHECK(framework_batches(elsewhere.model, plan, cluster).empty());
}
