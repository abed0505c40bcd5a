#include "tools/session/settle.h"

#include <fmt/format.h>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "models/job/identity.h"
#include "models/program/graph/documents.h"
#include "models/program/program_json.h"
#include "sim/predict/target.h"
#include "tools/session/checkpoints.h"
#include "tools/session/dump_passes.h"
#include "tools/session/job_file.h"
#include "tools/session/machines.h"
#include "tools/session/measured_steps.h"
#include "tools/session/text.h"

namespace meshwright::session {

namespace {

void check_runs_here(const Job& job, const JobRequest& wanted, const TrainRequest& how) {
  if (!how.hostfile.empty() || !wanted.sagemaker.hosts.empty()) return;
  const int count = counts_of(job.cluster).front();
  const std::string one_host = count > 1 ? " --set cluster.count=1" : "";
  for (const std::string& machine : machines_of(job.cluster))
    if (machine != "local")
      throw InputError(fmt::format(
          "{}: /cluster/machine: {} is not this computer (local); train runs on machine 'local', "
          "or on the hosts of --hostfile or SM_HOSTS. Rehearse it here with --set "
          "cluster.machine=local{}",
          job.file, machine, one_host));
  if (count > 1)
    throw InputError(fmt::format(
        "{}: /cluster/count: {} x local is not this computer alone; name the hosts with --hostfile "
        "or SM_HOSTS. Rehearse it here with --set cluster.machine=local{}",
        job.file, count, one_host));
}

// Throws InputError for options of mpirun that are not on the list of allowed ones, because a job
// file may come from anywhere, and some options name programs to run. Whoever starts the job can
// allow them.
void check_mpi_options(const Job& job, const TrainRequest& how) {
  if (job.unlisted_mpi_options.empty() || how.allow_mpi_options) return;
  throw InputError(fmt::format(
      "{}: /distribution: custom_mpi_options: {} {} not on the list of what a job file may set "
      "(docs/job-file.md); remove {}, or start the job with --allow-mpi-options if you trust it",
      job.file, list_of(job.unlisted_mpi_options, "and"),
      job.unlisted_mpi_options.size() == 1 ? "is" : "are",
      job.unlisted_mpi_options.size() == 1 ? "it" : "them"));
}

void warn_of_files(const Loader& loader, const Watch& watch) {
  for (const std::string& remark : loader.remarks()) watch.warn(remark);
}

// If rows are packed from data files, sets documents_per_row from the documents in them, so that
// predictions describe them, unless the job sets it. Throws InputError if the documents have fewer
// than two tokens in the mean, which is too short for a prediction.
void settle_documents(Job& job, Loader& loader, const Watch& watch) {
  std::optional<double>& documents = job.plan.training.documents_per_row;
  const std::optional<double> share = loader.document_share();
  if (documents || !share) return;
  documents = documents_of_share(*share);
  const int length = job.plan.training.sequence_length;
  if (*documents > length)
    throw InputError(fmt::format(
        "{}: /data/{}: documents of {} have fewer than two tokens in the mean, so there is next to "
        "nothing to predict from; {}, or leave training.packing out",
        job.file, job.data->document_end ? "document_end" : "files",
        list_of(job.data->files, "and"),
        job.data->document_end
            ? fmt::format("token {} ends them: name another", *job.data->document_end)
            : "use longer pairs"));
  watch.note(fmt::format("training.documents_per_row: {:.3g}, of {}", *documents,
                         list_of(job.data->files, "and")));
}

// Notes how many sequences are evaluated if the last ones are left out because they do not fill a
// global batch.
void say_evaluated(const Job& job, const Loader& held_out, const Watch& watch) {
  const std::int64_t batch = job.plan.training.global_batch, all = held_out.sequences();
  const std::int64_t evaluated = evaluation_batches(job, held_out) * batch;
  if (job.data->evaluation->batches > 0 || evaluated == all) return;
  watch.note(
      fmt::format("data.evaluation: {} of {} sequences, whole batches of {} "
                  "(training.global_batch); the last {} "
                  "left out",
                  evaluated, all, batch,
                  all - evaluated == 1 ? "one is" : fmt::format("{} are", all - evaluated)));
}

// Throws InputError if the job is for another framework, because `train` runs only this engine.
void check_is_own(const Job& job) {
  const Framework framework = job.plan.training.framework;
  if (framework == Framework::meshwright) return;
  const std::string name(name_of(framework));
  const bool is_written = std::ranges::count(framework_names(), name) > 0;
  throw InputError(fmt::format(
      "{}: /training/framework: 'train' runs this engine, not {}; use --set "
      "training.framework=meshwright{}",
      job.file, name,
      is_written ? ", or write its settings with 'export --for " + name + "'" : std::string()));
}

void check_can_start(const Job& job, const JobRequest& wanted, const TrainRequest& how) {
  check_is_own(job);
  check_has_kernels(job);
  check_can_run(job, wanted, how);
  check_allowed_changes(how.allow_changed);
  if (!how.allow_changed.empty() && !how.resume)
    throw InputError(
        "--allow-changed: goes with --resume, which compares the job with a checkpoint");
  check_checkpoint_folder(job, how.resume);
  if (how.resume) check_resumed_weights(job, how.allow_changed);
  if (!job.has_steps)
    throw InputError(job.file +
                     ": /training/steps: is missing; say how many steps to train, here or with "
                     "--steps N");
}

// Opens the job's data files, which throws InputError if they are wrong, and settles what follows
// from them.
void settle_data(Job& job, const Watch& watch) {
  Loader loader(loader_options(job));
  warn_of_files(loader, watch);
  settle_documents(job, loader, watch);
  if (!evaluates(job)) return;
  const Loader held_out(evaluation_options(job));
  warn_of_files(held_out, watch);
  say_evaluated(job, held_out, watch);
}

void check_fits(const Run& run) {
  const Prediction prediction = predict_chosen(run.job, run.chosen);
  if (!prediction.fits)
    throw NoPlanFits(fmt::format(
        "{}: the plan needs {} per rank, this computer gives each {}; `meshwright plan` finds one "
        "that fits where \"auto\" leaves it a choice",
        run.job.file, show_bytes(static_cast<double>(prediction.peak_memory_bytes)),
        show_bytes(prediction.memory_limit_bytes)));
}

void warn_of_fused_optimizer(const Run& run, const Watch& watch) {
  const Training& training = run.chosen.compiled.plan.training;
  const bool in_passes =  // what a CPU does
      training.compiler == CompilerLevel::none && training.optimizer != OptimizerKind::lamb;
  if (!in_passes || run.chosen.cluster.machine.gpu.kind != DeviceKind::gpu) return;
  watch.warn(run.job.file +
             ": /training/compiler: none: on a GPU the optimizer still is one kernel, not the "
             "framework's passes over whole parameters");
}

}  // namespace

void check_can_run(const Job& job, const JobRequest& wanted, const TrainRequest& how) {
  check_mpi_options(job, how);
  check_runs_here(job, wanted, how);
}

LoaderOptions loader_options(const Job& job) {
  const Training& training = job.plan.training;
  LoaderOptions loader;
  loader.seed = training.seed;
  loader.sequence_length = training.sequence_length;
  static_cast<ModelInputs&>(loader) = job.model.inputs();
  loader.predicted = training.predicted_positions;
  loader.packing = training.packing;
  loader.documents_per_row = training.documents_per_row.value_or(1);
  loader.global_batch = training.global_batch;
  if (!job.data) return loader;
  loader.mask_token = job.data->mask_token.value_or(-1);
  loader.document_end = job.data->document_end.value_or(-1);
  loader.files = job.data->files;
  loader.format = job.data->format;
  loader.weights = job.data->weights;
  loader.shuffle = job.data->shuffle;
  loader.data_seed = job.data->seed;
  loader.text = {job.data->tokenizer, job.data->chat_template, job.data->end_token};
  return loader;
}

bool evaluates(const Job& job) { return job.data && job.data->evaluation; }

LoaderOptions evaluation_options(const Job& job) {
  LoaderOptions options = loader_options(job);
  options.files = job.data->evaluation->files;
  options.weights.clear();
  options.shuffle = false;
  return options;
}

std::int64_t evaluation_batches(const Job& job, const Loader& loader) {
  const std::int64_t batch = job.plan.training.global_batch, wanted = job.data->evaluation->batches;
  const std::int64_t whole = loader.sequences() / batch;
  if (whole < std::max<std::int64_t>(wanted, 1))
    throw InputError(fmt::format(
        "{}: /data/evaluation: {} has {} sequences, {} whole batches of {} "
        "(training.global_batch); {}",
        job.file, list_of(job.data->evaluation->files, "and"), loader.sequences(), whole, batch,
        wanted > 0 ? fmt::format("batches says {}", wanted) : "one is needed"));
  return wanted > 0 ? wanted : whole;
}

// Removes `faults` and `failures` from the job, with a warning, because they exist for simulations
// only and a real run ignores them.
void leave_out_faults(Job& job, const Watch& watch) {
  const auto warn_of = [&](const char* section) {
    watch.warn(
        fmt::format("{}: /{}: no effect here; simulate and plan rehearse them", job.file, section));
  };
  if (job.cluster.faults.any()) warn_of("faults");
  if (job.cluster.failures) warn_of("failures");
  job.cluster.faults = {};
  job.cluster.failures = {};
}

Run settle_run(const JobRequest& wanted, const TrainRequest& how,
               const std::function<void(const Job&)>& check_outputs, const Watch& watch) {
  Run run{read_job_of(wanted, watch), {}};
  leave_out_faults(run.job, watch);
  if (how.steps) {
    run.job.plan.training.steps = *how.steps;
    run.job.has_steps = true;
  }
  check_can_start(run.job, wanted, how);
  check_outputs(run.job);
  settle_data(run.job, watch);
  run.chosen = choose_plan(run.job, machine_loader(wanted, watch), watch);
  tell_defaults(run.job, run.chosen, watch);
  check_fits(run);
  warn_of_fused_optimizer(run, watch);
  const Plan& plan = run.chosen.compiled.plan;
  if (run.job.compiler_debug)
    run_passes(build_graph(run.job.model, plan.training), plan,
               device_facts(run.chosen.cluster, plan.training.precision),
               dump_into(debug_folder(run.job), plan.training));
  return run;
}

std::string settled_text(const Run& run) {
  const Chosen& chosen = run.chosen;
  const std::string folder = std::filesystem::current_path().string();
  const json text = {
      {"file", run.job.file},
      {"folder", folder},
      {"job", settled_job(run.job, chosen.compiled.plan, chosen.machine, chosen.count, folder)},
      {"machine", text_of(chosen.cluster.machine)},
      {"stage_of_unit", chosen.compiled.plan.stage_of_unit},
      {"programs", to_json(chosen.compiled.stages)}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

Run read_settled(const std::string& text) {
  const std::string where = "the settled run";
  Fields fields(parse_json(text, where), where);
  const Machine machine = machine_of_text(fields.required<std::string>("machine"), where);
  const bool is_gpu = machine.gpu.kind == DeviceKind::gpu;
  Run run;
  run.job = read_job(
      fields.raw("job"), fields.required<std::string>("file"),
      fields.required<std::string>("folder"),
      // The job has one machine only, whose facts are those of the profile, whatever
      // name the profile has.
      [&](const std::string& name) { return is_gpu ? facts_of(machine) : machine_facts(name); });
  run.chosen = plan_with_programs(
      run.job, [&](const std::string&) { return machine; },
      read_programs(fields.object("programs")), where);
  run.chosen.compiled.plan.stage_of_unit = fields.required<std::vector<int>>("stage_of_unit");
  return run;
}

}  // namespace meshwright::session
