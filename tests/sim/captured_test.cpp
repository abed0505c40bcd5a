// Tests the planner on captured models, whose units it profiles one by one.
#include "tests/models/captured.h"
#include "sim/planner/search.h"
#include "tests/catch.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"
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
  const json value = job_of(folder, captured_json(3, false, 2048), 1);
  const Planned planned(value, "p3.16xlarge", 1);
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
