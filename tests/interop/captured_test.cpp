// Tests captured models: which frameworks run them with which plans, and what an export contains.
#include "tests/models/captured.h"
#include "models/core/error.h"
#include "sim/planner/search.h"
#include "tests/catch.h"
#include "tests/fuzz/random_job.h"
#include "tests/message_of.h"
#include "tools/interop/export.h"
#include "tools/interop/expressible.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Job captured_job(const std::string& framework) {
  return fuzz::read_random_job(
      {{"model", captured_json(4)},
       {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 1}}},
       {"training", {{"framework", framework}, {"global_batch", 16}, {"recompute", "auto"}}},
       {"parallelism", "auto"}});
}

}  // namespace

TEST_CASE("frameworks that build their models take no captured one, and say so", "[interop]") {
  for (const std::string& name : framework_names()) {
    if (name == "deepspeed" || name == "accelerate") continue;
    INFO(name);
    Job job = captured_job(name);
    CHECK(
        message_of([&] { take_ways_of_framework(job); })
            .ends_with(": /model: " + name +
                       " builds its models itself (deepspeed and accelerate take a captured one)"));
  }
}

TEST_CASE("plans of a captured model are exported for a script of its own", "[interop]") {
  for (const std::string name : {"deepspeed", "accelerate"}) {
    INFO(name);
    Job job = captured_job(name);
    take_ways_of_framework(job);
    CHECK(job.plan.training.compiler == CompilerLevel::fused);
    const SearchResult found = search(job, {.keep_best = 1, .load = fuzz::load_machine_of_job});
    REQUIRE(!found.plans.empty());
    const Plan& plan = found.plans.front().plan;
    CHECK(plan.parallelism.pipeline == 1);
    const Exported exported = export_plan(job, plan, "p4d.24xlarge", 1, 8, framework_of(name), {});
    CHECK(exported.warnings.size() == 1);
    bool has_settings = false;
    for (const ExportedFile& file : exported.files) {
      INFO(file.name);
      CHECK(file.name != "config.json");
      CHECK(file.name != "train.py");
      has_settings =
          has_settings || file.name == "ds_config.json" || file.name == "accelerate.yaml";
      CHECK(file.text.find("attn_implementation") == std::string::npos);
    }
    CHECK(has_settings);
  }
}
