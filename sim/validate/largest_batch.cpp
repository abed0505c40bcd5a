#include "sim/validate/largest_batch.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/job.h"
#include "sim/compile/eager_memory.h"
#include "sim/compile/largest_batch.h"
#include "sim/planner/clusters.h"

namespace meshwright {

namespace {

using nlohmann::json;

// A framework's allocator, which holds everything.
double usable_bytes(const Machine& machine, bool several) {
  const FrameworkMemory& framework = *machine.framework;
  const LibraryOverheads& overheads = machine.overheads;
  return (framework.capacity_bytes - framework.context_bytes - overheads.workspace_bytes -
          (several ? overheads.communicator_bytes : 0)) *
         (1 - framework.allocator_loss);
}

Job job_of(const LargestBatchRow& row, const Machine& machine) {
  const std::string model = zoo_model_of(row.model);
  json training = {{"global_batch", machine.gpus},
                   {"micro_batch", 1},
                   {"sequence_length", row.sequence_length},
                   {"precision", row.precision},
                   {"attention", "unfused"},
                   {"dropout", 0.1},
                   {"compiler", "full"}};
  if (load_model(model, ".").head == Head::mlm)
    training["predicted_positions"] = row.sequence_length;
  return read_job(
      {{"model", model}, {"training", training}, {"cluster", {{"machine", row.machine}}}}, row.id,
      ".", machine_facts);
}

}  // namespace

std::string zoo_model_of(const std::string& published) {
  std::string name = published.substr(published.find('/') + 1);  // npos + 1 is 0
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* derived : {"-finetuned-", "-distilled-"})
    name = name.substr(0, name.find(derived));
  if (!is_zoo_name(name)) throw InputError("no model '" + name + "' in the zoo");
  return name;
}

BatchPair predict_largest_batch(const LargestBatchRow& row, const Machine& machine) {
  if (!machine.framework)
    throw InputError(machine.name +
                     ": its profile does not say what a framework finds of its memory");
  const Job job = job_of(row, machine);
  Cluster cluster = make_cluster(job.cluster, machine, 1);
  const bool several = cluster.ranks() > 1;
  const double usable = usable_bytes(machine, several);
  const auto limit = static_cast<std::int64_t>(usable);
  const Plan plan = settle(job, cluster.ranks(), machine_facts(machine));
  BatchPair pair;
  pair.native = largest_that_fits(limit, [&](int batch) {
                  Training training = plan.training;
                  training.compiler = CompilerLevel::none;
                  training.micro_batch = batch;
                  const std::int64_t bytes =
                      eager_peak_bytes(build_graph(job.model, training), several);
                  return Fit{bytes <= limit, bytes};
                }).micro_batch;
  cluster.machine.gpu.memory_bytes = usable;
  cluster.machine.overheads = {};
  pair.compiled = largest_micro_batch(job.model, plan, cluster).micro_batch;
  return pair;
}

}  // namespace meshwright
