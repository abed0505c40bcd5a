#include "tests/exec/saving_run.h"

#include "exec/checkpoint/folder.h"
#include "tests/catch.h"

namespace meshwright::tests {

Plan saving_plan(const Model& model) {
  Plan plan = small_plan(model, {.micro_batches = 1});
  plan.training.learning_rate = 1e-2;
  plan.snapshot = true;
  return plan;
}

SavingRun::SavingRun(const Plan& plan_, const Model& model_, int threads)
    : SmallRun(model_, plan_, threads), all(group_of_all(*own_world)) {}

std::optional<Manifest> SavingRun::resume_from(const std::string& folder) {
  return resume({folder, "adamw", shapes_of(stages), frozen_of(stages)}, runtime, *all,
                [&](const std::string& line) { said.push_back(line); });
}

Manifest SavingRun::about(int number) const {
  Manifest manifest;
  manifest.run = "test";
  manifest.step = manifest.updates = number;
  manifest.position = number * plan.training.global_batch;
  manifest.optimizer = "adamw";
  return manifest;
}

void SavingRun::save(const std::string& folder, int number, int keep) {
  Saver saver(folder, keep, runtime, *all, [](const std::string& line) { FAIL(line); });
  saver.save(about(number));
  REQUIRE(saver.finish());
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const StepFolder& each : step_folders(folder)) steps.push_back(each.step);
  return steps;
}

}  // namespace meshwright::tests
