// Translates the `distribution` dictionary. The job file accepts it unchanged
// (models/job/distribution.h), so an import keeps it.
#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/sagemaker/sagemaker.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view parameters_key = "distribution.smdistributed.modelparallel.parameters";

// Keys of the library's parameters that only version 1 has.
constexpr const char* version_1_signs[] = {
    "partitions", "pipeline_parallel_degree",     "microbatches",
    "ddp",        "sharded_data_parallel_degree", "shard_optimizer_state"};

// Returns whether a parameter of the library is true or false. Notebooks write 1 and 0 too.
bool is_switch(const std::string& name) {
  constexpr std::string_view switches[] = {
      "enabled", "prescaled_batch", "ddp", "shard_optimizer_state", "offload_activations", "fp16",
      "bf16",    "fp16_params"};
  return std::ranges::find(switches, name.substr(name.rfind('.') + 1)) != std::end(switches);
}

// Copies every setting whose name begins with `before` to the job under the same name. Returns
// whether there is one.
bool keep_below(Settings& from, JobDraft& to, const std::string& before) {
  std::vector<std::string> names;
  for (const Setting& each : from.all())
    if (each.name.starts_with(before)) names.push_back(each.name);
  for (const std::string& name : names) {
    const Setting* setting = from.read(name);
    if (setting == nullptr || from.is_open(*setting)) continue;
    to.comes_from(setting->place + ": " + from.spelled(name));
    const bool is_number = is_switch(name) && (setting->value == 0 || setting->value == 1);
    to.set(name, is_number ? json(setting->value == 1) : setting->value);
  }
  return !names.empty();
}

void set_library(JobDraft& to, const json& parameters) {
  const bool is_first = std::any_of(std::begin(version_1_signs), std::end(version_1_signs),
                                    [&](const char* key) { return parameters.contains(key); });
  to.set(is_first ? "distribution.mpi.enabled" : "distribution.torch_distributed.enabled", true);
  to.set("distribution.smdistributed.modelparallel.enabled", true);
  to.set(parameters_key, parameters);
}

// Reads the library's parameters as the SDK sends them, either as a string of JSON such as
// {"hybrid_shard_degree": 8} or as an object.
void read_sent_parameters(Settings& from, JobDraft& to) {
  for (const char* name :
       {"hyperparameters.mp_parameters", "mp_parameters", "hyper_parameters.mp_parameters",
        "SM_HP_MP_PARAMETERS", "environment.SM_HP_MP_PARAMETERS", "env.SM_HP_MP_PARAMETERS"}) {
    const Setting* setting = from.read(name);
    if (setting == nullptr) continue;
    json parameters = setting->value;
    if (parameters.is_string())
      parameters = json::parse(parameters.get<std::string>(), nullptr, false);
    if (!parameters.is_object())
      from.fail(name, setting->value.dump() + " is no dictionary written as JSON");
    if (!parameters.empty() && !to.has("distribution")) set_library(to, parameters);
  }
}

// Reads `distributed` of SDK 3: Torchrun(process_count_per_node, smp=SMP(...)) or
// MPI(process_count_per_node, mpi_additional_options).
void read_distributed(Settings& from, JobDraft& to) {
  if (const auto processes = from.whole("distributed.process_count_per_node"))
    to.set("cluster.processes_per_host", *processes);
  const std::vector<std::string> options = from.words("distributed.mpi_additional_options");
  json library = json::object();
  std::vector<std::string> names;
  for (const Setting& each : from.all())
    if (each.name.starts_with("distributed.smp.")) names.push_back(each.name);
  for (const std::string& name : names)
    if (const Setting* setting = from.read(name); setting != nullptr)
      library[name.substr(std::string("distributed.smp.").size())] = setting->value;
  if (to.has("distribution")) return;
  if (!library.empty()) set_library(to, library);
  if (options.empty()) return;
  std::string text;
  for (const std::string& option : options) text += (text.empty() ? "" : " ") + option;
  to.set("distribution.mpi.enabled", true);
  to.set("distribution.mpi.custom_mpi_options", text);
}

// Returns whether the Trainer's fsdp says how ranks share the model, and the dictionary only how
// the processes are started. A job has one of both.
bool is_said_by_fsdp(const Settings& from) {
  const bool has_words = std::ranges::any_of(from.all(), [](const Setting& each) {
    return each.name == "hyperparameters.fsdp" && each.value.is_string() && each.value != "";
  });
  return has_words && std::ranges::none_of(from.all(), [](const Setting& each) {
           return each.name.starts_with("distribution.smdistributed.modelparallel.");
         });
}

void read_distribution_of_job(Settings& from, JobDraft& to) {
  if (is_said_by_fsdp(from)) {
    for (const Setting& each : std::vector<Setting>(from.all()))
      if (each.name.starts_with("distribution.")) from.read(each.name);
  } else {
    keep_below(from, to, "distribution.");
  }
  const bool has_degrees = to.has(parameters_key);
  read_sent_parameters(from, to);
  read_distributed(from, to);
  if (!has_degrees || !to.has("distribution.mpi.processes_per_host")) return;
  // The cluster gets the dictionary's number of processes, so that the job does not have two
  // different ones.
  const json processes = to.value("distribution.mpi.processes_per_host");
  if (processes.is_number_integer()) to.set("cluster.processes_per_host", processes);
}

void add_version_1(const JobValues& from, Settings& to) {
  const Parallelism& p = from.plan.parallelism;
  const Training& t = from.plan.training;
  if (from.machine == "p5.48xlarge")
    throw InputError("/parallelism/pipeline: " + std::to_string(p.pipeline) +
                     ": sagemaker has stages in version 1 of its library only, which does not know "
                     "p5.48xlarge; use 1, or another machine");
  to.add("distribution.mpi.enabled", true);
  to.add("distribution.mpi.processes_per_host", from.gpus_per_host);
  to.add("distribution.smdistributed.modelparallel.enabled", true);
  const auto add = [&](const char* key, json value) {
    to.add(std::string(parameters_key) + "." + key, std::move(value));
  };
  add("pipeline_parallel_degree", p.pipeline);
  add("microbatches", from.plan.micro_batches());
  const bool is_gpipe = p.schedule == ScheduleKind::gpipe;
  add("pipeline", is_gpipe ? "simple" : "interleaved");
  if (!is_gpipe) add("active_microbatches", p.active_microbatches);
  add("placement_strategy", p.placement);
  add("auto_partition", true);
  add("memory_weight", p.memory_weight);
  add("ddp", true);
  add("overlapping_allreduce", p.overlap_gradients);
  add("tensor_parallel_degree", p.tensor);
  if (p.tensor > 1) {
    add("optimize", p.tensor_layout == TensorLayout::speed ? "speed" : "memory");
    add("prescaled_batch", !p.tensor_batch_own);
  }
  add("shard_optimizer_state", p.zero_stage == 1);
  add("fp16", t.precision == Precision::fp16);
  add("offload_activations", p.offload != Offload::none);
  if (p.offload != Offload::none) add("activation_loading_horizon", p.offload_horizon);
}

void add_version_2(const JobValues& from, Settings& to) {
  const Parallelism& p = from.plan.parallelism;
  to.add("distribution.torch_distributed.enabled", true);
  to.add("distribution.smdistributed.modelparallel.enabled", true);
  const auto add = [&](const char* key, json value) {
    to.add(std::string(parameters_key) + "." + key, std::move(value));
  };
  add("hybrid_shard_degree", p.zero_stage == 0 ? 1 : p.shard == 1 ? 0 : p.shard);
  add("tensor_parallel_degree", p.tensor);
  add("context_parallel_degree", p.context);
  add("expert_parallel_degree", p.expert);
  add("sm_activation_offloading", p.offload != Offload::none);
  if (p.offload != Offload::none) add("activation_loading_horizon", p.offload_horizon);
  add("random_seed", from["training.seed"]);
}

}  // namespace

Rule distribution_rule() {
  return {{"distribution", "cluster.processes_per_host"},
          {"distribution", "distributed.process_count_per_node", "distributed.smp",
           "distributed.mpi_additional_options", "hyperparameters.mp_parameters",
           "SM_HP_MP_PARAMETERS"},
          read_distribution_of_job,
          [](const JobValues& from, Settings& to) {
            if (from.plan.parallelism.pipeline > 1)
              add_version_1(from, to);
            else
              add_version_2(from, to);
          },
          "kept as it is; plans with stages are version 1 of the library, others version 2"};
}

bool is_version_1(const JobDraft& job) {
  return job.has(parameters_key) && job.value("distribution.mpi.enabled") == true;
}

std::int64_t library_degree(const JobDraft& job, const std::string& name) {
  const json value = job.value(std::string(parameters_key) + "." + name);
  return value.is_number_integer() ? std::max<std::int64_t>(1, value.get<std::int64_t>()) : 1;
}

}  // namespace meshwright::interop
