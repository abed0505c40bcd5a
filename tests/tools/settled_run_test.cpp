// Tests what the launcher passes to its ranks: the job, the machine and the Programs. A rank makes
// the same run from them without compiling.
#include <nlohmann/json.hpp>

#include "models/program/program_json.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tools/session/machines.h"
#include "tools/session/settle.h"

using namespace meshwright::tests;

namespace {

Run settled(const std::vector<std::string>& set) {
  JobRequest job;
  job.file = MESHWRIGHT_SOURCE_DIR "/tests/tools/tiny.json";
  job.local_profile = job.profile = MESHWRIGHT_SOURCE_DIR "/tests/tools/local.json";
  job.set = set;
  TrainRequest how;
  how.steps = 2;
  return settle_run(job, how, [](const Job&) {}, {});
}

}  // namespace

TEST_CASE("a rank reads the Programs, the plan and the prediction of the launcher",
          "[tools][session]") {
  const std::vector<std::vector<std::string>> plans = {
      {"parallelism.data=2", "cluster.processes_per_host=2"},
      {"parallelism.pipeline=2", "parallelism.data=1", "cluster.processes_per_host=2",
       "training.recompute=full"},
      {"parallelism.tensor=2", "parallelism.data=2", "parallelism.zero_stage=1",
       "cluster.processes_per_host=4", "training.compiler=full"},
      {"parallelism=\"auto\"", "training.micro_batch=\"auto\"", "cluster.processes_per_host=2"}};
  for (const auto& set : plans) {
    CAPTURE(set);
    const Run launched = settled(set);
    const Run read = read_settled(settled_text(launched));
    const Compiled &own = launched.chosen.compiled, &other = read.chosen.compiled;
    CHECK(to_json(other.stages) == to_json(own.stages));
    CHECK(to_json(other.plan.parallelism) == to_json(own.plan.parallelism));
    CHECK(to_json(other.plan.training) == to_json(own.plan.training));
    CHECK(other.plan.stage_of_unit == own.plan.stage_of_unit);
    CHECK(other.graph.nodes.size() == own.graph.nodes.size());
    CHECK(predict_chosen(read.job, read.chosen).step_time ==
          predict_chosen(launched.job, launched.chosen).step_time);
  }
}

TEST_CASE("without a profile of this computer, a caller that measures none is told so",
          "[tools][session]") {
  MachineRequest request;
  request.local_profile = "nowhere/local.json";
  CHECK(message_of([&] { machine_loader(request)("local"); }) ==
        "nowhere/local.json: no profile of this computer, and the caller measures none");
}

TEST_CASE("Programs of other degrees than the plan's are refused", "[tools][session]") {
  Run run = settled({"parallelism.data=2", "cluster.processes_per_host=2"});
  const Run other =
      settled({"parallelism.tensor=2", "parallelism.data=1", "cluster.processes_per_host=2"});
  CHECK(message_of([&] {
          take_programs(run.chosen, other.chosen.compiled.stages, "file");
        }).starts_with("file: the Programs are of pipeline 1 x tensor 2 x data 1 "));
}
