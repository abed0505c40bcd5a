#include "tools/session/script_run.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "exec/checkpoint/resume.h"
#include "exec/core/stream_source.h"
#include "hwprofiles/cores.h"
#include "hwprofiles/load.h"
#include "models/architectures/captured/captured_model.h"
#include "models/core/error.h"
#include "models/program/timeline.h"
#include "sim/predict/target.h"
#include "tools/session/engine.h"
#include "tools/session/machines.h"
#include "tools/session/process_memory.h"
#include "tools/session/train.h"
#include "tools/session/write_file.h"

namespace meshwright::session {

namespace {

// Has the profile of a CPU that was never measured, as a format string. Its rates are round numbers
// for one core of a server.
constexpr std::string_view unmeasured = R"({{
  "name": "local", "aliases": [], "gpus": 576, "calibration": "spec sheet",
  "concurrent_streams": false,
  "gpu": {{"name": "CPU, not measured", "kind": "cpu", "memory_bytes": {memory},
    "memory_bandwidth_bytes_per_s": 20e9, "peak_flop_per_s": {{"fp32": 50e9}}, "sm_count": {cores},
    "clock_hz": 0, "l2_bytes": 0, "tdp_w": 0, "source": "not measured"}},
  "efficiency": {{"gemm": [[1e6, 0.8], [1e9, 1.0]], "memory_bound": [[1e6, 1.0]],
    "kernel_latency_s": 1e-6, "source": "not measured"}},
  "shared_memory": {{"rank_bandwidth_bytes_per_s": 4e9, "total_bandwidth_bytes_per_s": 8e9,
    "source": "not measured"}},
  "collectives": {{"host_latency_s": 0, "host_step_latency_s": 1e-6, "network_latency_s": 0,
    "network_step_latency_s": 0, "source": "not measured"}},
  "host": {{"vcpus": {cores}, "memory_bytes": {memory}, "host_launch_us": 0,
    "source": "not measured"}},
  "overheads": {{"context_bytes": 0, "communicator_bytes": 0, "workspace_bytes": 0,
    "source": "not measured"}},
  "prices": null
}})";

void check_ranks(const Run& run, int ranks) {
  const int planned = run.chosen.cluster.ranks();
  if (ranks > 0 && planned != ranks)
    throw InputError(fmt::format(
        "{}: the plan has {} ranks, and {} processes were started; start as many as the plan has",
        run.job.file, planned, ranks));
}

// Returns the options of a loader that reads nothing, because the script has its own data.
LoaderOptions no_data(const Job& job) {
  LoaderOptions options = loader_options(job);
  options.vocabulary = 1;
  return options;
}

// Compiles the chosen plan again, without the memory that PyTorch's allocator holds.
void leave_memory_to_torch(Run& run) {
  Model model = run.job.model;
  model.captured =
      std::make_shared<const CapturedModel>(without_kept_by_torch(*run.job.model.captured));
  const Plan& plan = run.chosen.compiled.plan;
  take_programs(run.chosen,
                compile(model, plan, target_of(run.chosen.cluster, plan.training)).stages,
                run.job.file);
}

// Predicts the step with the memory that PyTorch's allocator holds.
Prediction predict_whole(const Run& run) {
  Chosen whole = run.chosen;
  const Plan& plan = whole.compiled.plan;
  whole.compiled = compile(run.job.model, plan, target_of(whole.cluster, plan.training));
  return predict_chosen(run.job, whole);
}

}  // namespace

Machine unmeasured_computer() {
  return machine_of_text(fmt::format(unmeasured, fmt::arg("memory", physical_memory_bytes()),
                                     fmt::arg("cores", usable_cores())),
                         "this computer");
}

std::string settle_script(const JobRequest& wanted, const TrainRequest& how, int ranks,
                          const Watch& watch) {
  Run run{read_job_of(wanted, watch), {}};
  if (!run.job.model.captured)
    throw InputError(run.job.file +
                     ": /model: a script runs a captured model (own.model.json); this one is "
                     "trained by `meshwright train`");
  if (how.steps) run.job.plan.training.steps = *how.steps;
  run.job.plan.snapshot = true;  // a script may save at any time
  run.chosen = choose_plan(run.job, machine_loader(wanted, watch), watch);
  check_ranks(run, ranks);
  leave_memory_to_torch(run);
  return settled_text(run);
}

std::string made_by_rank_0(Communicator& all, const std::function<std::string()>& make) {
  std::string text, complaint;
  if (all.rank() == 0) try {
      text = make();
    } catch (const std::exception& error) {
      complaint = error.what();
    }
  complaint = first_complaint(complaint, all);
  if (!complaint.empty()) throw InputError(complaint);
  share_text(all, text);
  return text;
}

// Manages a folder of checkpoints of this run. It has a copy of the job that names the folder.
struct ScriptRun::Folder {
  Folder(ScriptRun& run, const std::string& name, int keep, bool resumes) : job(run.run_.job) {
    job.checkpoint.emplace();
    job.checkpoint->folder = name;
    job.checkpoint->every_steps = std::numeric_limits<int>::max();
    job.checkpoint->keep = keep;
    TrainRequest how = run.how_;
    how.resume = resumes;
    lock = lock_checkpoints(job, resumes, *run.all_);
    checkpoints.emplace(job, run.run_.chosen, how, *run.runtime_, *run.all_, run.watch_);
  }

  Job job;
  std::unique_ptr<FolderLock> lock;
  std::optional<RunCheckpoints> checkpoints;
};

ScriptRun::ScriptRun(const std::string& settled, World& world, int threads, const RunSegment& run,
                     const ScriptOptimizer& own, const TrainRequest& how, const Watch& watch)
    : run_(read_settled(settled)),
      world_(world),
      watch_(watch),
      how_(how),
      all_(group_of_all(world)),
      own_(own),
      loader_(no_data(run_.job)) {
  const Deadlines deadlines = deadlines_of(how_);
  const Chosen& chosen = run_.chosen;
  const Training& training = chosen.compiled.plan.training;
  prediction_ = predict_whole(run_);
  engine_ = make_engine(chosen.cluster, {training.precision, training.deterministic, threads},
                        world, deadlines.long_s);
  backend_ = make_segment_backend(*engine_.backend, run, own_);
  RuntimeOptions options{threads, run_.job.model.layers, false};
  runtime_ =
      std::make_unique<Runtime>(chosen.compiled.stages, engine_.world(world), *backend_, options);
}

ScriptRun::~ScriptRun() = default;

StepResult ScriptRun::step(std::optional<double> learning_rate) {
  const Deadlines deadlines = deadlines_of(how_);
  world_.set_deadline(steps_done_ <= first_step_ + 1 ? deadlines.long_s : deadlines.usual_s);
  own_.updates = !learning_rate;
  runtime_->set_learning_rate(learning_rate.value_or(0));
  runtime_->trace(!trace_.empty());
  const std::int64_t position = steps_done_ * run_.chosen.compiled.plan.training.global_batch;
  const StepResult result = runtime_->step(steps_done_ + 1, position, loader_);
  steps_done_ += 1;
  loss_ = result.loss;
  if (!trace_.empty()) write_trace();
  return result;
}

void ScriptRun::trace(const std::string& path) { trace_ = path; }

void ScriptRun::write_trace() {
  const Timeline all = timeline_of_all(runtime_->timeline(), *all_);
  const std::vector<Program>& stages = run_.chosen.compiled.stages;
  std::vector<int> stage_of_rank;
  for (int rank = 0; rank < world_.size(); ++rank)
    stage_of_rank.push_back(runtime_->mesh().coordinates(rank).pipeline);
  if (all_->rank() == 0) write_file(trace_, to_chrome_trace(all, stages, stage_of_rank));
  trace_.clear();
}

void* ScriptRun::current_stream() const {
  auto* const source = dynamic_cast<StreamSource*>(engine_.backend.get());
  return source == nullptr ? nullptr : source->current_stream();
}

ScriptRun::Folder& ScriptRun::folder(const std::string& name, int keep, bool resumes) {
  auto& found = folders_[name];
  if (!found || resumes) {
    found.reset();  // releases the folder's lock
    found = std::make_unique<Folder>(*this, name, keep, resumes);
  }
  return *found;
}

void ScriptRun::save(const std::string& name, int keep) {
  world_.set_deadline(deadlines_of(how_).long_s);
  folder(name, keep, false).checkpoints->after_step(steps_done_, loss_, true, std::nullopt);
}

bool ScriptRun::finish_saving() {
  bool good = true;
  for (const auto& [name, each] : folders_) good = each->checkpoints->finish() && good;
  return good;
}

std::int64_t ScriptRun::resume(const std::string& name) {
  const RunCheckpoints& checkpoints = *folder(name, 2, true).checkpoints;
  steps_done_ = first_step_ = checkpoints.steps_done();
  loss_ = checkpoints.loss_before();
  return steps_done_;
}

}  // namespace meshwright::session
