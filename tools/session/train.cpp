
#include "tools/session/train.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "exec/comm/checked.h"
#include "exec/launch/stop.h"
#include "hwprofiles/cores.h"
#include "models/architectures/onnx/imported_graph.h"
#include "models/architectures/onnx/read_onnx.h"
#include "models/core/error.h"
#include "tools/session/checkpoints.h"
#include "tools/session/engine.h"
#include "tools/session/process_memory.h"
#include "tools/session/settle.h"
#include "tools/session/step_list.h"

namespace meshwright::session {

int threads_per_rank(std::optional<int> threads, int ranks_on_host) {
  if (threads) return *threads;
  const int cores = usable_cores();
  return std::max(1, cores / ranks_on_host);
}

Deadlines deadlines_of(const TrainRequest& how) {
  if (!how.deadline) return {};
  const auto seconds = static_cast<double>(*how.deadline);
  return {seconds, seconds};
}

Timeline timeline_of_all(const Timeline& own, Communicator& all) {
  const auto ranks = static_cast<std::size_t>(all.size());
  const auto own_count = static_cast<std::int64_t>(own.entries.size());
  std::vector<std::int64_t> counts(ranks);
  all.all_gather(&own_count, counts.data(), sizeof own_count);
  const auto most = static_cast<std::size_t>(*std::ranges::max_element(counts));
  std::vector<TimelineEntry> padded = own.entries, together(most * ranks);
  padded.resize(most);
  all.all_gather(padded.data(), together.data(),
                 static_cast<std::int64_t>(most * sizeof(TimelineEntry)));
  Timeline merged;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = together.begin() + static_cast<std::ptrdiff_t>(rank * most);
    merged.entries.insert(merged.entries.end(), begin, begin + counts[rank]);
  }
  return merged;
}

namespace {

// Returns what `make` returns. If `make` throws InputError on any rank, all ranks throw
// RankRefuses.
template <typename Make>
auto made_by_all(Communicator& all, const Make& make) -> decltype(make()) {
  std::optional<decltype(make())> made;
  std::string complaint;
  try {
    made.emplace(make());
  } catch (const InputError& error) {
    complaint = error.what();
  }
  const std::int64_t own = complaint.empty() ? 0 : 1;
  std::vector<std::int64_t> complaints(all.size());
  all.all_gather(&own, complaints.data(), sizeof own);
  const auto first = std::ranges::find(complaints, 1);
  if (first == complaints.end()) return *std::move(made);
  throw RankRefuses(complaint, first - complaints.begin() == all.rank());
}

// Keeps the timelines of some steps. For TrainRequest::keeps_timeline these are the steps that the
// request names, or the latest step if it names none. With `keeps_last`, the last step of the run
// is kept in addition.
class Traced {
 public:
  Traced(const TrainRequest& how, bool keeps_last, int last_step)
      : on_(how.keeps_timeline), compared_step_(keeps_last ? last_step : 0) {
    if (!how.trace_steps.empty()) steps_.emplace("--trace-steps", how.trace_steps);
  }
  void before(Runtime& runtime, std::int64_t step) const {
    runtime.trace(for_file(step) || step == compared_step_);
  }
  void after(const Runtime& runtime, std::int64_t step) {
    const auto& entries = runtime.timeline().entries;
    if (step == compared_step_) compared_.entries = entries;
    if (!for_file(step)) return;
    if (!steps_) kept_.entries.clear();
    kept_.entries.insert(kept_.entries.end(), entries.begin(), entries.end());
    last_begin_ = std::numeric_limits<SimTime>::max();
    for (const TimelineEntry& entry : entries) last_begin_ = std::min(last_begin_, entry.begin);
  }
  const Timeline& kept() const { return kept_; }
  const Timeline& compared() const { return compared_; }
  SimTime last_begin() const { return kept_.entries.empty() ? 0 : last_begin_; }

 private:
  bool for_file(std::int64_t step) const { return on_ && (!steps_ || steps_->contains(step)); }

  bool on_;
  int compared_step_;
  std::optional<StepList> steps_;
  Timeline kept_, compared_;
  SimTime last_begin_ = 0;
};

// Returns the memory of every rank. On a CPU, the peak is that of the resident memory. Pages of
// other ranks that collectives read count as resident here too, so they are subtracted. On a
// device, the peak is the memory that is in use at the end of the run.
std::vector<RankMemory> memory_of_all(Runtime& runtime, const World& world) {
  const Backend& backend = runtime.memory().backend();
  const auto peaks = runtime.gather_of_all(
      backend.shares_memory_with_host() ? peak_resident_bytes() - world.resident_bytes_of_others()
                                        : backend.used_bytes());
  const auto arenas = runtime.gather_of_all(runtime.arena_bytes());
  const auto scratches = runtime.gather_of_all(runtime.scratch_bytes());
  std::vector<RankMemory> memory;
  for (std::size_t rank = 0; rank < peaks.size(); ++rank)
    memory.push_back({arenas[rank], scratches[rank], peaks[rank]});
  return memory;
}

// Evaluates on data.evaluation. loss() returns the mean loss over all ranks and batches. Every rank
// calls it.
struct HeldOut {
  Loader loader;
  std::int64_t batches = 0, every_steps = 0, global_batch = 0;

  double loss(Runtime& runtime) {
    Evaluation all;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const Evaluation of_batch = runtime.evaluate(batch * global_batch, loader);
      all.loss += of_batch.loss;
      all.targets += of_batch.targets;
    }
    return all.mean();
  }
};

// Returns this rank's evaluation, or nothing if the job has no data.evaluation.
std::optional<HeldOut> evaluation_of(const Job& job) {
  if (!evaluates(job)) return std::nullopt;
  Loader loader(evaluation_options(job));
  const std::int64_t batches = evaluation_batches(job, loader);
  return HeldOut{std::move(loader), batches, job.data->evaluation->every_steps,
                 job.plan.training.global_batch};
}

Outcome run_steps(Runtime& runtime, World& world, const Deadlines& deadlines, Loader& loader,
                  HeldOut* evaluation, const Training& training, RunCheckpoints& checkpoints,
                  Traced& traced, RunObserver& observer, bool hashes) {
  Outcome outcome;
  outcome.steps = checkpoints.steps_done();
  outcome.last.loss = checkpoints.loss_before();
  const std::int64_t first = outcome.steps + 1;
  for (std::int64_t step = first; step <= training.steps; ++step) {
    // Compiling in the first step and capturing a graph on GPUs in the second take long.
    world.set_deadline(step <= first + 1 ? deadlines.long_s : deadlines.usual_s);
    traced.before(runtime, step);
    outcome.last = runtime.step(step, checkpoints.position(step), loader);
    traced.after(runtime, step);
    outcome.steps = step;
    outcome.seconds.add(step, outcome.last.seconds);
    outcome.losses.add(step, outcome.last.loss);
    std::optional<double> found;
    if (evaluation != nullptr && (step % evaluation->every_steps == 0 || step == training.steps)) {
      found = evaluation->loss(runtime);
      outcome.evaluation = found;
      outcome.evaluations.add(step, *found);
    }
    observer.step(step, outcome.last, found);
    const bool stops = runtime.any(stop_requested() || !observer.goes_on());
    world.set_deadline(deadlines.long_s);  // a save may wait for the slowest disk
    checkpoints.after_step(step, outcome.last.loss, stops || step == training.steps, found);
    if (!stops) continue;
    outcome.stopped = step < training.steps;
    break;
  }
  outcome.saved = checkpoints.finish();
  outcome.best_loss = checkpoints.best_loss();
  outcome.best_step = checkpoints.best_step();
  outcome.memory = memory_of_all(runtime, world);
  if (hashes) outcome.parameters_sha256 = runtime.parameters().sha256();
  return outcome;
}

// Returns the weights with which a model of an ONNX file begins, or null for other models.
std::unique_ptr<OnnxWeights> weights_of_file(const Job& job) {
  return job.model.imported ? std::make_unique<OnnxWeights>(job.model.imported->file) : nullptr;
}

void set_weights(const OnnxWeights& weights, Runtime& runtime) {
  for (const StageParameter& each : runtime.program().parameters) {
    const std::vector<float> values = weights.read(each.parameter.name);
    if (std::ssize(values) != each.parameter.global_shape.elements())
      throw InputError(each.parameter.name + " has another size now: its file was replaced");
    runtime.parameters().set(each.parameter.name, values);
  }
}

}  // namespace

Outcome train(const TrainRequest& how, const Job& job, const Chosen& chosen, World& world,
              const MakeObserver& observe, const Watch& watch) {
  const Plan& plan = chosen.compiled.plan;
  const int threads = threads_per_rank(how.threads, chosen.cluster.processes_per_host);
  const Deadlines deadlines = deadlines_of(how);
  const auto all = group_of_all(world);
  auto loader = made_by_all(*all, [&] { return Loader(loader_options(job)); });
  auto evaluation = made_by_all(*all, [&] { return evaluation_of(job); });
  const auto weights = made_by_all(*all, [&] { return weights_of_file(job); });
  const auto lock = lock_checkpoints(job, how.resume, *all);
  forget_peak_resident_bytes();  // a run of one rank may have measured this computer first
  const Engine engine = made_by_all(*all, [&] {
    return make_engine(chosen.cluster,
                       {plan.training.precision, plan.training.deterministic, threads}, world,
                       deadlines.long_s);
  });
  std::unique_ptr<World> checked;
  if (how.check_collectives && world.size() > 1) checked = make_checked_world(engine.world(world));
  World& on_device = checked ? *checked : engine.world(world);
  Runtime runtime(chosen.compiled.stages, on_device, *engine.backend,
                  {threads, job.model.layers, how.keeps_timeline});
  if (weights) set_weights(*weights, runtime);
  RunCheckpoints checkpoints(job, chosen, how, runtime, *all, watch);
  if (lock) write_plan_beside(job, chosen, watch);
  Timeline predicted;
  const Prediction prediction = predict(
      chosen.compiled, chosen.cluster,
      {.price = &job.objective.price, .framework = chosen.framework, .timeline = &predicted});
  const std::unique_ptr<RunObserver> observer = observe(prediction);
  observer->begin(threads, checkpoints.how_it_began(), loader.sequences());
  // Only a profile that was measured on this computer predicts the times of its steps.
  const bool compares = chosen.cluster.machine.calibration == Calibration::this_machine;
  const bool keeps_last = compares || how.keeps_last_step;
  Traced traced(how, keeps_last, plan.training.steps);
  Outcome outcome;
  try {
    outcome = run_steps(runtime, world, deadlines, loader, evaluation ? &*evaluation : nullptr,
                        plan.training, checkpoints, traced, *observer, !how.no_hash);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception&) {
    // The error is reported before the runtime is destroyed, because its groups would wait for the
    // other ranks.
    if (world.size() > 1) observer->fail();
    throw;
  }
  if (how.keeps_timeline) {
    outcome.timeline = timeline_of_all(traced.kept(), *all);
    outcome.last_step_begins = traced.last_begin();
  }
  if (keeps_last && !outcome.stopped && !outcome.seconds.empty()) {
    outcome.last_step = timeline_of_all(traced.compared(), *all);
    if (compares)
      outcome.kinds =
          kind_times(predicted, outcome.last_step, chosen.compiled.stages, runtime.mesh());
  }
  outcome.predicted = std::move(predicted);
  observer->end(outcome);
  return outcome;
}

}  // namespace meshwright::session
