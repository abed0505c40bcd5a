// A small model in training: its Runtime and everything that the Runtime refers to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/runtime/runtime.h"
#include "tests/models/plans.h"

namespace meshwright::tests {

using Values = std::map<std::string, std::vector<float>>;  // parameters' values, by name

struct SmallRun {
  // Lowers the plan. Every rank of `world` calls it. If `trace` is set, a Timeline is kept.
  SmallRun(const Model& model, const Plan& plan, World& world, bool trace = false);
  // Runs these Programs instead of the plan's own.
  SmallRun(const Model& model, const Plan& plan, World& world, std::vector<Program> stages,
           bool trace = false);
  // Runs on a backend of its own, which `world` may know.
  SmallRun(const Model& model, const Plan& plan, World& world, std::shared_ptr<Backend> backend);
  // Runs in a world of its own, with the kernels on `threads` threads.
  SmallRun(const Model& model, const Plan& plan, int threads = 1);
  SmallRun(const SmallRun&) = delete;
  SmallRun& operator=(const SmallRun&) = delete;

  // Runs step `number`, from 1, on the global batch that a run from step 1 has then.
  StepResult step(int number);
  // Runs a step on the global batch that begins with sequence `position`.
  StepResult step_at(std::int64_t number, std::int64_t position);
  std::string hash() { return runtime.parameters().sha256(); }
  // Returns whole parameters by name on rank 0, and nothing on the others. Every rank calls it.
  Values parameters();

  const std::unique_ptr<World> own_world;  // the world of a run alone
  const Model model;
  const Plan plan;
  const std::vector<Program> stages;
  const Mesh mesh;
  const std::shared_ptr<Backend> backend;
  Loader loader;  // made-up tokens
  Runtime runtime;

 private:
  SmallRun(const Model& model, const Plan& plan, std::unique_ptr<World> own, World* world,
           std::vector<Program> stages, bool trace, std::shared_ptr<Backend> backend);
};

// Results of a run.
struct Trained {
  std::vector<double> losses, norms;  // those of every step
  Values parameters;                  // on rank 0
  std::string hash;                   // the parameters' hash, on rank 0
  bool operator==(const Trained&) const = default;
};
Trained train(SmallRun& run);  // the plan's steps, from 1

// Changes the plan to a few steps in which every difference shows. AdamW with its usual epsilon
// would turn gradients that are only rounding errors into whole steps.
Plan in_few_steps(Plan plan, int steps);

}  // namespace meshwright::tests
