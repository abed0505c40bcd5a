// Writes a job back as a job file.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/job/keys.h"
#include "models/job/sections.h"
#include "models/program/graph/graph.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

// Returns the job's `model` as JSON. A path is written with a slash, even if it is one word,
// because a word without a slash names a model of the zoo.
json model_json(const Job& job) {
  if (job.model_path.empty()) return json::parse(job.model_json);
  const std::string path = from_folder(job.folder, job.model_path);
  return path.find('/') == std::string::npos ? "./" + path : path;
}

template <class Settings>
json to_json(Settings settings, Keys (*keys)(Settings&), const Job& job) {
  return write_keys(keys(settings), job.folder);
}

json data_json(const Job& job) {
  DataFiles data = job.data.value_or(DataFiles{});
  data.loading = job.loading;
  json value = to_json(data, data_keys, job);
  if (!job.data) {
    value.erase("shuffle");
    value.erase("seed");
  }
  if (job.model.reads_images() || !job.data) value.erase("format");
  if (data.format != TokenFormat::pairs) value.erase("template");
  return value;
}

}  // namespace

json to_json(const Plan& plan) {
  json value = {{"format", 1},
                {"parallelism", to_json(plan.parallelism)},
                {"training", to_json(plan.training)}};
  if (!plan.parallelism.manual_stage.empty()) value["stage_of"] = plan.parallelism.manual_stage;
  // The plan does not have the units' names, so stages are in the order of the units of the model's
  // graph.
  if (!plan.stage_of_unit.empty()) value["stage_of_unit"] = plan.stage_of_unit;
  return value;
}

json to_json(const Job& job, const Plan& plan, const std::string& machine, int count) {
  ClusterRequest cluster = job.cluster;
  cluster.machines = {machine};
  cluster.counts = {count};
  json value = {{"name", job.name},
                {"model", model_json(job)},
                {"training", to_json(plan.training)},
                {"parallelism", to_json(plan.parallelism)},
                {"cluster", to_json(std::move(cluster), cluster_keys, job)},
                {"objective", to_json(job.objective, objective_keys, job)}};
  if (!job.has_steps) value["training"].erase("steps");
  if (job.data || job.loading.any()) value["data"] = data_json(job);
  if (job.checkpoint) value["checkpoint"] = to_json(*job.checkpoint, checkpoint_keys, job);
  if (job.cluster.faults.any()) value["faults"] = to_json(job.cluster.faults, faults_keys, job);
  if (job.cluster.failures) value["failures"] = to_json(*job.cluster.failures, failures_keys, job);
  const json log = to_json(job.log, log_keys, job);
  if (!log.empty()) value["log"] = log;
  return value;
}

json partition_json(const Graph& graph, const std::vector<int>& stage_of_unit) {
  json stages = json::object();
  for (std::size_t u = 0; u < graph.units.size(); ++u)
    stages[graph.units[u].path] = stage_of_unit[u];
  return {{"format", 1}, {"kind", "partition"}, {"stage_of", stages}};
}

}  // namespace meshwright::job
