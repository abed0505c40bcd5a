#include "models/job/job.h"

#include <fmt/format.h>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/distribution.h"
#include "models/job/sections.h"

namespace meshwright {

using nlohmann::json;

namespace {

constexpr std::array<const char*, 14> job_keys = {"name",
                                                  "model",
                                                  "training",
                                                  "cluster",
                                                  "instance_type",
                                                  "instance_count",
                                                  "parallelism",
                                                  "distribution",
                                                  "compiler_config",
                                                  "objective",
                                                  "faults",
                                                  "data",
                                                  "checkpoint",
                                                  "log"};

// Throws the same sort of error with `place` before its message.
template <class Body>
auto within(const std::string& place, Body body) {
  try {
    return body();
  } catch (const NotSupportedYet& error) {
    throw NotSupportedYet(place + error.what());
  } catch (const InputError& error) {
    throw InputError(place + error.what());
  }
}

void read_model_section(Fields& fields, Job& job) {
  job.model_json = fields.raw("model").dump();
  if (fields.is_object("model")) {
    job.model = read_model(fields.object("model"));
  } else {
    const std::string ref = fields.required<std::string>("model");
    job.model = within(job.file + ": /model: ", [&] { return load_model(ref, job.folder); });
  }
}

// BERT predicts 15 in 100 tokens unless told otherwise; the other heads have no such number.
void settle_predicted_positions(Job& job) {
  Training& training = job.plan.training;
  if (job.model.head == Head::mlm) {
    if (training.predicted_positions == 0)
      training.predicted_positions =
          std::max(1, static_cast<int>(std::lround(0.15 * training.sequence_length)));
  } else if (training.predicted_positions > 0) {
    throw InputError(job.file +
                     ": /training/predicted_positions: only a model with head 'mlm' has them; "
                     "leave it out");
  }
}

Precision default_precision(const MachineFacts& machine) {
  if (machine.is_cpu) return Precision::fp32;
  return machine.has_bf16 ? Precision::bf16 : Precision::fp16;
}

// Fused kernels need 16-bit inputs on a GPU; the second generation needs one that has bf16.
AttentionKernel default_attention(const MachineFacts& machine, Precision precision) {
  if (machine.is_cpu) return AttentionKernel::flash2;
  if (precision == Precision::fp32 || precision == Precision::tf32) return AttentionKernel::unfused;
  return machine.has_bf16 ? AttentionKernel::flash2 : AttentionKernel::flash;
}

void check_precision(Precision precision, const MachineFacts& machine) {
  if (machine.is_cpu) return;  // whether it can run there is the engine's to say
  const bool there = precision == Precision::bf16   ? machine.has_bf16
                     : precision == Precision::tf32 ? machine.has_tf32
                     : precision == Precision::fp8  ? machine.has_fp8
                                                    : true;
  if (there) return;
  std::vector<std::string> words = {"fp32", "fp16"};
  if (machine.has_tf32) words.push_back("tf32");
  if (machine.has_bf16) words.push_back("bf16");
  throw InputError(fmt::format("/training/precision: the machine's GPUs have no {}; use {}",
                               name_of(precision), list_of(words)));
}

// data from the rest of the ranks, and the product against them. Degrees are at least 1 each.
void settle_degrees(Plan& plan, int ranks, bool data_from_rest) {
  Parallelism& p = plan.parallelism;
  for (const auto& [key, degree] :
       {std::pair{"pipeline", p.pipeline}, std::pair{"tensor", p.tensor},
        std::pair{"context", p.context}, std::pair{"data", p.data}})
    if (degree < 1)
      throw InputError(fmt::format("/parallelism/{}: {} is too small; use 1 or more", key, degree));
  const double model = static_cast<double>(p.pipeline) * p.tensor * p.context;
  const bool fits = model <= ranks && std::fmod(ranks, model) == 0;
  const std::string rest = fits ? fmt::format("data {}", std::lround(ranks / model))
                                : "degrees whose product divides the ranks";
  if (data_from_rest) {
    if (!fits)
      throw InputError(
          fmt::format("/parallelism: pipeline {} x tensor {} x context {} = {} does not divide the "
                      "cluster's {} ranks; use {}",
                      p.pipeline, p.tensor, p.context, model, ranks, rest));
    p.data = static_cast<int>(std::lround(ranks / model));
  } else if (model * p.data != ranks) {
    throw InputError(fmt::format(
        "/parallelism: pipeline {} x tensor {} x context {} x data {} = {}, but the cluster has {} "
        "ranks; use {}",
        p.pipeline, p.tensor, p.context, p.data, model * p.data, ranks, rest));
  }
}

Plan settle_plan(const Job& job, int ranks, const MachineFacts& machine) {
  Plan plan = job.plan;
  Training& training = plan.training;
  if (job.is_auto("training.precision")) training.precision = default_precision(machine);
  if (job.is_auto("training.attention"))
    training.attention = default_attention(machine, training.precision);
  check_precision(training.precision, machine);
  settle_degrees(plan, ranks, job.is_auto("parallelism.data"));
  verify(plan, job.model.sizes());
  return plan;
}

bool has_open_degrees(const Job& job) {
  for (const std::string& key : job.autos)
    if (key.starts_with("parallelism.") && key != "parallelism.data") return true;
  return false;
}

// While degrees or the cluster are open, only what does not depend on them can be checked.
void check_open_job(const Job& job) {
  Plan plan = job.plan;
  const Parallelism& given = job.plan.parallelism;
  plan.parallelism = Parallelism{};
  plan.parallelism.tensor = given.tensor;
  plan.parallelism.offload = given.offload;
  if (job.is_auto("training.precision") && plan.training.loss_scale)
    plan.training.precision = Precision::fp16;
  verify(plan, job.model.sizes());
}

// A CPU host starts as many processes as the job's degrees need.
void settle_processes(Job& job, const ChosenCluster& cluster) {
  if (!cluster.facts.is_cpu || cluster.hosts == 0 || job.cluster.processes_per_host > 0) return;
  job.cluster.processes_per_host = 1;
  if (has_open_degrees(job)) return;
  const Parallelism& p = job.plan.parallelism;
  const double product = static_cast<double>(p.pipeline) * p.tensor * p.context * p.data;
  if (product >= 1 && product <= 1e6 && std::fmod(product, cluster.hosts) == 0)
    job.cluster.processes_per_host = static_cast<int>(product) / cluster.hosts;
}

// For a CPU the facts' `gpus` are its cores, where known.
void warn_oversubscribed(Job& job, const ChosenCluster& cluster) {
  const int processes = job.cluster.processes_per_host;
  if (cluster.hosts > 0 && cluster.facts.is_cpu && cluster.facts.gpus > 0 &&
      processes > cluster.facts.gpus)
    job.warnings.push_back(fmt::format("{}: {} processes share {} cores of {}", job.file, processes,
                                       cluster.facts.gpus, cluster.machine));
}

void read_small_sections(Fields& fields, Job& job) {
  if (fields.has("objective")) read_objective(fields.object("objective"), job);
  if (fields.has("faults")) read_faults(fields.object("faults"));
  if (fields.has("data")) read_data(fields.object("data"), job);
  if (fields.has("checkpoint")) read_checkpoint(fields.object("checkpoint"), job);
  if (fields.has("log")) read_log(fields.object("log"), job);
}

// How the job is cut: in our words, or in SageMaker's.
void read_cut(Fields& fields, const ChosenCluster& cluster, Job& job) {
  if (!fields.has("distribution")) {
    if (fields.has("parallelism"))
      read_parallelism(fields.object("parallelism"), job);
    else
      job.autos.insert("parallelism.data");
    return;
  }
  if (fields.has("parallelism"))
    fields.fail("distribution", "given beside 'parallelism'; keep one of them");
  const std::vector<std::string> keys = fields.object("training").keys();
  read_distribution(fields.object("distribution"), cluster, {keys.begin(), keys.end()}, job);
}

bool is_version_2(Fields& fields) {
  return fields.has("distribution") && fields.object("distribution").has("torch_distributed");
}

void check_job(Fields& fields, const ChosenCluster& cluster, MachineLookup lookup, Job& job) {
  settle_processes(job, cluster);
  const bool launched = fields.has("distribution") && fields.object("distribution").has("mpi");
  check_processes(job,
                  launched ? "/distribution/mpi/processes_per_host" : "/cluster/processes_per_host",
                  lookup);
  warn_oversubscribed(job, cluster);
  try {
    if (cluster.hosts == 0 || has_open_degrees(job)) {
      check_open_job(job);
    } else {
      const int processes = job.cluster.processes_per_host;
      settle_plan(job, cluster.hosts * (processes > 0 ? processes : cluster.facts.gpus),
                  cluster.facts);
    }
  } catch (const InputError& error) {
    const std::string message = fields.has("distribution")
                                    ? in_words_of_distribution(error.what(), is_version_2(fields))
                                    : error.what();
    if (dynamic_cast<const NotSupportedYet*>(&error))
      throw NotSupportedYet(job.file + ": " + message);
    throw InputError(job.file + ": " + message);
  }
}

// `path` as the written job, which lies beside the one that was read, says it.
std::string from_folder(const Job& job, const std::string& path) {
  return std::filesystem::path(path).lexically_proximate(job.folder).string();
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
  json value = {{"minimize", objective.minimize}, {"spot", objective.spot}};
  if (objective.tokens) value["tokens"] = *objective.tokens;
  if (objective.deadline_s) value["deadline_s"] = *objective.deadline_s;
  if (objective.budget_usd) value["budget_usd"] = *objective.budget_usd;
  return value;
}

json data_json(const Job& job) {
  json files = json::array();
  for (const std::string& file : job.data->files) files.push_back(from_folder(job, file));
  return {{"files", files},
          {"format", job.data->uint16 ? "uint16" : "bytes"},
          {"shuffle", job.data->shuffle},
          {"seed", job.data->seed}};
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

Job read_job(const std::string& path, const std::vector<std::string>& overrides,
             MachineLookup lookup) {
  json value = parse_json(read_file(path), path);
  if (!value.is_object()) Fields(value, path);  // says what is wrong
  for (const std::string& text : overrides) apply_override(value, text, path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return read_job(value, path, folder.empty() ? "." : folder, lookup);
}

Job read_job(const json& value, const std::string& file, const std::string& folder,
             MachineLookup lookup) {
  json spelled = value;
  if (spelled.is_object()) spell_out_auto(spelled);
  Fields fields(std::move(spelled), file);
  for (const char* key : job_keys) fields.has(key);
  fields.done();
  Job job;
  job.file = file;
  job.folder = folder;
  job.name = fields.optional<std::string>("name", std::filesystem::path(file).stem().string());
  read_model_section(fields, job);
  read_training(fields.object("training"), job);
  settle_predicted_positions(job);
  const ChosenCluster cluster = read_cluster(fields, job, lookup);
  if (fields.has("compiler_config")) read_compiler_config(fields, cluster, job);
  read_cut(fields, cluster, job);
  read_small_sections(fields, job);
  check_job(fields, cluster, lookup, job);
  return job;
}

Plan settle(const Job& job, int ranks, const MachineFacts& machine) {
  return within(job.file + ": ", [&] { return settle_plan(job, ranks, machine); });
}

json to_json(const Job& job, const Plan& plan, const std::string& machine, int count) {
  json value = {{"name", job.name},
                {"model", json::parse(job.model_json)},
                {"training", to_json(plan.training)},
                {"parallelism", to_json(plan.parallelism)},
                {"cluster", cluster_json(job, machine, count)},
                {"objective", objective_json(job.objective)}};
  if (job.data) value["data"] = data_json(job);
  if (job.checkpoint)
    value["checkpoint"] = {{"folder", from_folder(job, job.checkpoint->folder)},
                           {"every_steps", job.checkpoint->every_steps},
                           {"keep", job.checkpoint->keep}};
  const json log = log_json(job);
  if (!log.empty()) value["log"] = log;
  return value;
}

}  // namespace meshwright
