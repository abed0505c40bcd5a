// A job written back as a job file.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/job/sections.h"

namespace meshwright {

using nlohmann::json;

namespace {

// `path` as the written job, which lies beside the one that was read, says it.
std::string from_folder(const Job& job, const std::string& path) {
  return std::filesystem::path(path).lexically_proximate(job.folder).string();
}

// A path is said as one, however short, since a word alone names a model of the zoo.
json model_json(const Job& job) {
  if (job.model_path.empty()) return json::parse(job.model_json);
  const std::string path = from_folder(job, job.model_path);
  return path.find('/') == std::string::npos ? "./" + path : path;
}

json cluster_json(const Job& job, const std::string& machine, int count) {
  json cluster = {{"machine", machine}, {"count", count}};
  if (job.cluster.processes_per_host > 0)
    cluster["processes_per_host"] = job.cluster.processes_per_host;
  if (const auto& network = job.cluster.network) {
    cluster["network"] = {{"nics", network->nics}, {"gbps_per_nic", network->gbps_per_nic}};
    if (network->latency_us >= 0) cluster["network"]["latency_us"] = network->latency_us;
  }
  if (job.cluster.host_launch_us) cluster["host_launch_us"] = *job.cluster.host_launch_us;
  return cluster;
}

json objective_json(const Objective& objective) {
  json value = {{"minimize", minimize_names()[static_cast<std::size_t>(objective.minimize)]},
                {"spot", objective.spot}};
  if (objective.tokens) value["tokens"] = *objective.tokens;
  if (objective.deadline_s) value["deadline_s"] = *objective.deadline_s;
  if (objective.budget_usd) value["budget_usd"] = *objective.budget_usd;
  return value;
}

json data_json(const Job& job) {
  json files = json::array();
  for (const std::string& file : job.data->files) files.push_back(from_folder(job, file));
  json value = {{"files", files}, {"shuffle", job.data->shuffle}, {"seed", job.data->seed}};
  if (!job.model.reads_images()) value["format"] = info(job.data->format).name;
  if (job.data->mask_token) value["mask_token"] = *job.data->mask_token;
  return value;
}

json log_json(const Job& job) {
  json value = json::object();
  for (const auto& [key, path] :
       {std::pair{"json", job.log.json}, std::pair{"tensorboard", job.log.tensorboard},
        std::pair{"folder", job.log.folder}})
    if (!path.empty()) value[key] = from_folder(job, path);
  return value;
}

}  // namespace

json to_json(const Job& job, const Plan& plan, const std::string& machine, int count) {
  json value = {{"name", job.name},
                {"model", model_json(job)},
                {"training", to_json(plan.training)},
                {"parallelism", to_json(plan.parallelism)},
                {"cluster", cluster_json(job, machine, count)},
                {"objective", objective_json(job.objective)}};
  if (!job.has_steps) value["training"].erase("steps");
  if (job.data) value["data"] = data_json(job);
  if (job.checkpoint)
    value["checkpoint"] = {{"folder", from_folder(job, job.checkpoint->folder)},
                           {"every_steps", job.checkpoint->every_steps},
                           {"keep", job.checkpoint->keep}};
  if (job.cluster.faults.any()) value["faults"] = to_json(job.cluster.faults);
  const json log = log_json(job);
  if (!log.empty()) value["log"] = log;
  return value;
}

json partition_json(const Graph& graph, const std::vector<int>& stage_of_unit) {
  json stages = json::object();
  for (std::size_t u = 0; u < graph.units.size(); ++u)
    stages[graph.units[u].path] = stage_of_unit[u];
  return {{"format", 1}, {"kind", "partition"}, {"stage_of", stages}};
}

}  // namespace meshwright
