// Tests the planner on captured models, whose units it profiles one by one.
#include "tests/models/captured.h"
#include "sim/planner/search.h"
#include "sim/predict/kernel_parts.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"
#include "tests/sim/parts.h"
#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json job_of(const TestFolder& folder, const json& model, int hosts) {
  return {{"model", folder.file("own.model.json", model.dump())},
          {"training", {{"global_batch", 64}, {"compiler", "auto"}, {"recompute", "auto"}}},
          {"cluster", {{"machine", "p3.16xlarge"}, {"count", hosts}}},
          {"parallelism", "auto"}};
}

}  // namespace

TEST_CASE("the bounds are below what is simulated of a captured model", "[captured][planner]") {
  const TestFolder folder;
  const int hosts = GENERATE(1, 2);
  Planned planned(job_of(folder, captured_json(6, GENERATE(false, true), 1024), hosts),
                  "p3.16xlarge", hosts);
  REQUIRE(planned.candidates.size() > 100);
  const std::size_t step = sanitized ? 97 : 5 * static_cast<std::size_t>(one_in(3));
  for (std::size_t i = 0; i < planned.candidates.size(); i += step)
    planned.check_bounds(planned.candidates[i]);
}

TEST_CASE("a job may hold what capture wrote", "[captured][planner]") {
  const TestFolder folder;
  const json model = captured_json(3);
  json value = job_of(folder, model, 1);
  const SearchResult named = search(read(value), few);
  value["model"] = model;
  const SearchResult held = search(read(value), few);
  REQUIRE_FALSE(named.plans.empty());
  CHECK(to_json(held.plans.front().plan) == to_json(named.plans.front().plan));
  value["model"]["loss"] = 99;
  CHECK(message_of([&] { read(value); }).find("/model/loss: no segment makes") !=
        std::string::npos);
}

TEST_CASE("a captured model in fp64 is planned for CPUs, and for no GPU", "[captured][planner]") {
  const TestFolder folder;
  json model = captured_json(3);
  model["precision"] = "fp64";
  json value = job_of(folder, model, 1);
  const Training training = read(value).plan.training;
  CHECK(training.precision == Precision::fp64);
  CHECK(training.moments == Dtype::f64);
  CHECK(training.gradient_reduce == Dtype::f64);
  CHECK(message_of([&] {
          search(read(value), few);
        }).find("/training/precision: fp64 is planned and trained on CPUs only") !=
        std::string::npos);
}

TEST_CASE("a captured segment counts as all the kinds of kernels that it runs",
          "[captured][explain]") {
  const TestFolder folder;
  const Planned planned(job_of(folder, captured_json(3, false, 1024), 1), "p3.16xlarge", 1);
  Plan plan = to_plan(planned.candidates.front(), planned.base);
  for (const CompilerLevel level : {CompilerLevel::none, CompilerLevel::fused}) {
    plan.training.compiler = level;
    const Compiled compiled = compiled_for(planned.job.model, plan, planned.cluster);
    Timeline timeline;
    const Prediction prediction = predict(compiled, planned.cluster, {.timeline = &timeline});
    const StepParts parts = step_parts(compiled, planned.cluster, prediction, timeline);
    CHECK(sum_of(parts) == parts.step_time);
    CHECK(part(parts, "matrix products") > 0);
    CHECK(part(parts, "attention") == 0);
    CHECK(part(parts, "other kernels") > 0);
    const KernelParts kinds = predicted_kernel_parts(
        compiled.stages[static_cast<std::size_t>(parts.stage)], planned.cluster, timeline,
        timeline.entries.front().rank, prediction.step_time);
    CHECK(sum_of(kinds.parts) == prediction.step_time);
    if (plan.parallelism.pipeline == 1)
      CHECK(part(kinds.parts, "matrix products") == part(parts, "matrix products"));
  }
}

TEST_CASE("a captured model of one micro-batch is planned with it", "[captured][planner]") {
  const TestFolder folder;
  json model = captured_json(3);
  model["fixed_micro_batch"] = "a graph has no samples";
  const SearchResult found = search(read(job_of(folder, model, 1)), few);
  REQUIRE_FALSE(found.plans.empty());
  for (const RankedPlan& each : found.plans) CHECK(each.plan.training.micro_batch == 2);
}

TEST_CASE("the best plan of a captured model is the best of all", "[captured][planner]") {
  const TestFolder folder;
  json model = captured_json(3, false, 2048);
  if (GENERATE(false, true)) {
    add_tensor_degree(model, 2, true);
    add_tensor_degree(model, 2, false);
    add_tensor_degree(model, 4, false);
  }
  const json value = job_of(folder, model, 1);
  const Planned planned(value, "p3.16xlarge", 1);
  for (const int tensor : {2, 4})
    CHECK(std::ranges::any_of(planned.candidates, [&](const Candidate& candidate) {
            return candidate.tensor == tensor;
          }) == model.contains("tensor_parallel"));
  double best = 1e9;
  std::string name;
  for (const Candidate& candidate : planned.candidates) {
    const Prediction prediction = planned.simulate(candidate);
    if (prediction.fits && prediction.step_time_s < best) {
      best = prediction.step_time_s;
      name = planned.name(candidate);
    }
  }
  const SearchResult found = search(read(value), {.load = load_known_machine});
  REQUIRE_FALSE(found.plans.empty());
  INFO("best of all: " << name << "\nfound: " << to_json(found.plans.front().plan).dump());
  CHECK(found.plans.front().prediction.step_time_s == Approx(best));
}
