// Tests after which steps a run saves a checkpoint, and what the manifest of each checkpoint says.
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"
#include "tests/models/plans.h"
#include "tests/test_folder.h"
#include "tools/session/checkpoints.h"
#include "tools/session/machines.h"

using namespace meshwright::tests;

namespace {

// Returns a plan with memory for a snapshot, which is saved while training goes on.
Plan plan_of(const Model& model) {
  Plan plan = small_plan(model, {});
  plan.snapshot = true;
  return plan;
}

struct Scene {
  const TestFolder folder;
  const Model model = small_model("gpt");
  SmallRun run{model, plan_of(model)};
  const std::unique_ptr<Communicator> all = group_of_all(*run.own_world);
  Job job;
  Chosen chosen;

  Scene() {
    JobRequest request;
    request.file = MESHWRIGHT_SOURCE_DIR "/tests/tools/tiny.json";
    request.set = {"cluster.processes_per_host=1", "parallelism.data=1"};
    request.profile = MESHWRIGHT_SOURCE_DIR "/tests/tools/local.json";
    job = read_job_of(request);
    chosen.compiled.plan = run.plan;
    chosen.compiled.stages = run.stages;
  }

  void save_every(int steps, bool keep_best) {
    job.checkpoint.emplace();
    job.checkpoint->folder = folder.file("saved");
    job.checkpoint->every_steps = steps;
    job.checkpoint->keep = 20;
    job.checkpoint->keep_best = keep_best;
  }

  // Makes seven steps, whose losses are their numbers, with these evaluations. Returns the
  // manifests of the saved checkpoints by step.
  std::map<std::int64_t, Manifest> saved(RunCheckpoints& checkpoints,
                                         const std::map<int, double>& evaluations) {
    for (int step = 1; step <= 7; ++step) {
      const auto found = evaluations.find(step);
      checkpoints.after_step(
          step, step, step == 7,
          found == evaluations.end() ? std::nullopt : std::optional(found->second));
      REQUIRE(checkpoints.finish());
    }
    std::map<std::int64_t, Manifest> manifests;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file("saved")))
      if (std::filesystem::exists(entry.path() / "manifest.json")) {
        const Manifest manifest = read_manifest(entry.path().string());
        manifests[manifest.step] = manifest;
      }
    return manifests;
  }
};

TrainRequest from_the_start() { return {}; }
TrainRequest resumed() {
  TrainRequest request;
  request.resume = true;
  return request;
}

std::vector<std::int64_t> steps_of(const std::map<std::int64_t, Manifest>& manifests) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, manifest] : manifests) steps.push_back(step);
  return steps;
}

}  // namespace

TEST_CASE("checkpoints come at every interval and at the end", "[tools][checkpoint]") {
  Scene scene;
  scene.save_every(3, false);
  RunCheckpoints checkpoints(scene.job, scene.chosen, from_the_start(), scene.run.runtime,
                             *scene.all, {});
  const auto manifests = scene.saved(checkpoints, {{2, 5.0}, {4, 4.0}, {5, 4.5}});
  CHECK(steps_of(manifests) == std::vector<std::int64_t>{3, 6, 7});
  const std::int64_t batch = scene.run.plan.training.global_batch;
  for (const auto& [step, manifest] : manifests) {
    CHECK(manifest.updates == step);
    CHECK(manifest.position == step * batch);
    CHECK(manifest.loss == static_cast<double>(step));
    CHECK(manifest.best_step == -1);  // it keeps no best one
    CHECK(manifest.seed == scene.run.plan.training.seed);
    CHECK(manifest.model == scene.job.model.name);
  }
  CHECK(checkpoints.best_step() == 4);
  CHECK(checkpoints.best_loss() == 4.0);
  CHECK(checkpoints.steps_done() == 0);
  CHECK(checkpoints.position(1) == 0);
  CHECK(checkpoints.position(5) == 4 * batch);
}

TEST_CASE("the lowest evaluation loss is saved when it comes, and one that equals it is not",
          "[tools][checkpoint]") {
  Scene scene;
  scene.save_every(100, true);
  RunCheckpoints checkpoints(scene.job, scene.chosen, from_the_start(), scene.run.runtime,
                             *scene.all, {});
  const auto manifests =
      scene.saved(checkpoints, {{1, 5.0}, {2, 6.0}, {3, 4.0}, {4, 4.0}, {5, 4.5}, {6, 3.0}});
  CHECK(steps_of(manifests) == std::vector<std::int64_t>{1, 3, 6, 7});
  const std::map<std::int64_t, std::pair<std::int64_t, double>> best = {
      {1, {1, 5.0}}, {3, {3, 4.0}}, {6, {6, 3.0}}, {7, {6, 3.0}}};
  for (const auto& [step, manifest] : manifests) {
    CAPTURE(step);
    CHECK(manifest.best_step == best.at(step).first);
    CHECK(manifest.best_loss == best.at(step).second);
  }
}

TEST_CASE("a run without checkpoints knows its best evaluation all the same",
          "[tools][checkpoint]") {
  Scene scene;
  RunCheckpoints checkpoints(scene.job, scene.chosen, from_the_start(), scene.run.runtime,
                             *scene.all, {});
  CHECK(checkpoints.best_step() == -1);
  checkpoints.after_step(1, 1, false, std::nullopt);
  CHECK(checkpoints.best_step() == -1);
  checkpoints.after_step(2, 1, false, 2.0);
  checkpoints.after_step(3, 1, false, 2.0);
  CHECK(checkpoints.best_step() == 2);
  checkpoints.after_step(4, 1, true, 1.5);
  CHECK(checkpoints.best_step() == 4);
  CHECK(checkpoints.best_loss() == 1.5);
  CHECK(checkpoints.finish());
}

TEST_CASE("a resumed run counts on where its checkpoint stands", "[tools][checkpoint]") {
  Scene scene;
  scene.save_every(4, true);
  {
    RunCheckpoints first(scene.job, scene.chosen, from_the_start(), scene.run.runtime, *scene.all,
                         {});
    scene.saved(first, {{4, 2.0}});
  }
  RunCheckpoints second(scene.job, scene.chosen, resumed(), scene.run.runtime, *scene.all, {});
  const std::int64_t batch = scene.run.plan.training.global_batch;
  CHECK(second.steps_done() == 7);
  CHECK(second.loss_before() == 7);
  CHECK(second.best_step() == 4);
  CHECK(second.best_loss() == 2.0);
  CHECK(second.position(8) == 7 * batch);
  CHECK(second.position(10) == 9 * batch);
  CHECK(second.how_it_began().starts_with("resumed after step 7, " + std::to_string(7 * batch) +
                                          " sequences"));
}
