#include "tools/session/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "exec/checkpoint/resume.h"
#include "exec/comm/communicator.h"
#include "models/compiler/compile_forward.h"
#include "models/core/error.h"
#include "models/core/output_file.h"
#include "sim/predict/predict.h"
#include "sim/predict/target.h"
#include "tools/session/engine.h"
#include "tools/session/job_weights.h"
#include "tools/session/machines.h"
#include "tools/session/measured_steps.h"
#include "tools/session/script_run.h"
#include "tools/session/text.h"
#include "tools/session/train.h"

namespace meshwright::session {

namespace {

namespace fs = std::filesystem;

constexpr const char* weights_file = "/model.safetensors";
constexpr const char* weights_index = "/model.safetensors.index.json";

// Returns the profile of this computer. A computer without GPUs and without a profile is not
// measured, but gets a profile without measured rates.
Machine this_computer(const MachineRequest& request, const Watch& watch) {
  if (gpus_here() > 0 || fs::exists(request.local_profile) || !request.profile.empty())
    return machine_loader(request, watch)("local");
  return unmeasured_computer();
}

// Returns the plan of one process, compiled, and the cluster that it is for. Throws NoPlanFits if
// this computer has too little memory.
Chosen chosen_of(const Job& job, const Machine& machine) {
  Chosen chosen;
  chosen.machine = "local";
  chosen.cluster = make_cluster(job.cluster, machine, 1);
  const Plan plan = settle(job, 1, facts_of(machine));
  try {
    chosen.compiled =
        compile_forward(job.model, plan, device_facts(chosen.cluster, plan.training.precision));
  } catch (const InputError& error) {
    throw_in_file(job.file, error);
  }
  const auto needed =
      static_cast<double>(stage_memory(chosen.compiled.stages.front(), chosen.cluster).peak_bytes);
  const double there = chosen.cluster.device().memory_bytes;
  if (needed > there)
    throw NoPlanFits(fmt::format("{}: the model needs {} on one process, this computer gives it {}",
                                 job.file, show_bytes(needed), show_bytes(there)));
  return chosen;
}

}  // namespace

Job on_one_process(Job job) {
  job.cluster = {};
  job.cluster.machines = {"local"};
  job.cluster.counts = {1};
  job.cluster.processes_per_host = 1;
  job.autos = job.is_auto("training.precision")
                  ? std::set<std::string, std::less<>>{"training.precision", "training.attention"}
                  : std::set<std::string, std::less<>>{"training.attention"};
  job.left_out.clear();
  job.model.router_aux_loss_coef = 0;
  Plan& plan = job.plan;
  plan.parallelism = {};
  plan.stage_of_unit.clear();
  Training& training = plan.training;
  const Training usual;
  training.global_batch = training.micro_batch = 1;
  training.dropout = 0;
  if (training.lora) training.lora->dropout = 0;
  training.framework = usual.framework;
  training.memory_of = usual.memory_of;
  training.compiler = CompilerLevel::fused;
  training.passes_off.clear();
  training.rematerialize_rows = false;
  training.recompute = usual.recompute;
  training.recompute_group = usual.recompute_group;
  training.recompute_fraction = usual.recompute_fraction;
  training.recompute_modules.clear();
  training.recompute_budget.reset();
  training.mtp_layers = 0;
  training.router_bias_update_rate = 0;
  training.measure_expert_load = false;
  return job;
}

bool holds_safetensors(const std::string& path) {
  if (fs::is_regular_file(path)) return path.ends_with(".safetensors");
  return path_exists(path + weights_file) || path_exists(path + weights_index);
}

LoadedModel::LoadedModel(const Job& job, const LoadRequest& how, const MachineRequest& machines,
                         const Watch& watch) {
  check_has_kernels(job);
  const std::string folder = checkpoint_folder(job, how.checkpoint);
  if (!path_exists(folder))
    throw InputError(folder +
                     ": is not there; name a checkpoint, the folder of a run, or a folder "
                     "with model.safetensors");
  const Job own = on_one_process(job);
  chosen_ = chosen_of(own, this_computer(machines, watch));
  const Training& training = chosen_.compiled.plan.training;
  const int threads = threads_per_rank(how.threads, 1);
  world_ = make_world("self");
  engine_ = make_engine(chosen_.cluster, {training.precision, training.deterministic, threads},
                        *world_, WorldOptions{}.deadline_s);
  runtime_ =
      std::make_unique<Runtime>(chosen_.compiled.stages, engine_.world(*world_), *engine_.backend,
                                RuntimeOptions{threads, own.model.layers, false});
  if (holds_safetensors(folder))
    take_safetensors(own, folder);
  else
    take_checkpoint(job, folder, how, watch);
  runtime_->refresh_working_copies();
}

void LoadedModel::take_checkpoint(const Job& job, const std::string& folder, const LoadRequest& how,
                                  const Watch& watch) {
  const auto [path, found, base] =
      newest_good(folder, job, parameters_of(job), how.allow_changed, watch);
  load(found, *runtime_, base ? &*base : nullptr);
  path_ = path;
  step_ = found.manifest().step;
}

// Reads weights that transformers saved. Adapters of the job keep their initial values, which add
// nothing to the model.
void LoadedModel::take_safetensors(const Job& job, const std::string& folder) {
  const JobParameters parameters = parameters_of(job);
  const bool in_fp64 = chosen_.compiled.plan.training.precision == Precision::fp64;
  try {
    read_weights(Safetensors(folder), parameters.of_model(), parameters.parts, {},
                 [&](const std::string& name, const Shape&, const std::vector<float>& values) {
                   if (in_fp64)
                     runtime_->parameters().set<double>(
                         name, std::vector<double>(values.begin(), values.end()));
                   else
                     runtime_->parameters().set(name, values);
                 });
  } catch (const InputError& error) {
    const std::string what = error.what();
    throw InputError(what.starts_with("has no ") ? folder + ": " + what : what);
  }
  path_ = folder;
}

}  // namespace meshwright::session
