// Tests that a profile with any numbers is either rejected with a message that names the place, or
// gives a step with a finite time.
#include <cmath>
#include <nlohmann/json.hpp>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "sim/planner/clusters.h"
#include "sim/predict/predict.h"
#include "tests/catch.h"
#include "tests/sim/compiled.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

void check_step(const json& profile) {
  try {
    const Machine machine = machine_of_text(profile.dump(), "profile.json");
    const json value = json::parse(R"({
      "model": {"family": "gpt", "hidden": 64, "layers": 2, "heads": 4, "vocab": 99, "positions": 64},
      "training": {"global_batch": 32, "micro_batch": 1, "sequence_length": 64},
      "cluster": {"machine": "local", "count": 2},
      "parallelism": {"tensor": 2, "pipeline": 2, "zero_stage": 1}})");
    const Job job =
        read_job(value, "job.json", ".", [&](const std::string&) { return facts_of(machine); });
    const Cluster cluster = make_cluster(job.cluster, machine, 2);
    const Plan plan = settle(job, cluster.ranks(), facts_of(machine));
    const Prediction prediction = predict(compiled_for(job.model, plan, cluster), cluster);
    CHECK(std::isfinite(prediction.step_time_s));
    CHECK(prediction.step_time_s > 0);
  } catch (const InputError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    const bool says_where = text.starts_with("profile.json: /") ||
                            text.find("would take more than") != std::string::npos;
    CHECK(says_where);
  }
}

// Replaces every number of the profile, one after the other, and checks a step.
void check_numbers(json& profile, json& node) {
  if (node.is_structured()) {
    for (json& child : node) check_numbers(profile, child);
  } else if (node.is_number()) {
    const json before = node;
    for (const double value : {1e-308, 1e-12, 1e3, 1e6, 1e21, 1e308, -1.0}) {
      node = value;
      CAPTURE(value, before.dump());
      check_step(profile);
    }
    node = before;
  }
}

}  // namespace

TEST_CASE("no number of a profile ends the program", "[sim][profile]") {
  for (const char* name : {"p4d.24xlarge", "p3.16xlarge"}) {
    json profile = parse_json(text_of(load_machine(name)), name);
    check_numbers(profile, profile);
  }
}
