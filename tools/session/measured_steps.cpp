#include "tools/session/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "exec/runtime/runtime.h"
#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tools/session/engine.h"
#include "tools/session/median.h"
#include "tools/session/settle.h"
#include "tools/session/train.h"

namespace meshwright::session {

void check_has_kernels(const Job& job) {
  if (job.model.captured)
    throw NotSupportedYet(
        fmt::format("{}: /model: it is captured from PyTorch, and running its segments here is not "
                    "supported yet; plan and simulate it, and train it with its own script, for "
                    "which `export --for deepspeed` and `--for accelerate` write the plan",
                    job.file));
}

void check_measurable(const Job& job) {
  check_has_kernels(job);
  for (const std::string& machine : machines_of(job.cluster))
    if (machine != "local")
      throw InputError(fmt::format(
          "{}: /cluster/machine: {} is not this computer (local), so --measure can run nothing; "
          "rehearse it here with --set cluster.machine=local",
          job.file, machine));
  if (job.cluster.processes_per_host > 1 || counts_of(job.cluster).front() > 1)
    throw InputError(fmt::format(
        "{}: /cluster/processes_per_host: {} ranks; --measure runs one, "
        "`meshwright train` with --set training.compiler=LEVEL runs all",
        job.file, std::max(job.cluster.processes_per_host, 1) * counts_of(job.cluster).front()));
}

double measured_step_seconds(int threads, const Job& job, const Cluster& cluster,
                             const Compiled& compiled) {
  const Plan& plan = compiled.plan;
  const auto world = make_world("self");
  const Engine engine =
      make_engine(cluster, {plan.training.precision, plan.training.deterministic, threads}, *world,
                  WorldOptions{}.deadline_s);
  Loader loader(loader_options(job));
  Runtime runtime(compiled.stages, engine.world(*world), *engine.backend,
                  {threads, job.model.layers});
  std::vector<double> seconds;
  // The first steps are not measured: they allocate and compile, and one of them captures a graph
  // if the backend does that.
  const int first = engine.backend->capture() != nullptr ? 3 : 2;
  for (int step = 1; step < first + measured_steps; ++step) {
    const std::int64_t position = (step - 1) * plan.training.global_batch;
    const StepResult result = runtime.step(step, position, loader);
    if (step >= first) seconds.push_back(result.seconds);
  }
  return median(seconds);
}

}  // namespace meshwright::session
