// Runs the command `train JOB`. It chooses the plan, starts several ranks with mpirun, and reports
// how the run ended. Alternatively this process is the only rank, or one rank of the user's own
// mpirun.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <thread>

#include "exec/checkpoint/folder.h"
#include "exec/launch/marks.h"
#include "exec/launch/stop.h"
#include "exec/runtime/non_finite.h"
#include "models/core/error.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/ranks.h"
#include "tools/print.h"
#include "tools/report/trace_files.h"
#include "tools/report/train_log.h"
#include "tools/session/checkpoints.h"
#include "tools/session/dump_passes.h"
#include "tools/session/hosts.h"
#include "tools/session/settle.h"
#include "tools/session/step_list.h"
#include "tools/session/train.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

// Returns the command that a rank runs. Options that describe the job are left out, because rank 0
// gets the settled run on its standard input and sends it to the others.
std::vector<std::string> rank_command(Options options) {
  std::vector<std::string> command = {
      options.program, "train",      options.operands.front(),
      "--as-rank",     "--run-name", "meshwright-" + std::to_string(getpid())};
  if (isatty(fileno(stderr)) != 0) command.emplace_back("--progress");
  static_cast<JobRequest&>(options) = {};
  std::ranges::move(command_words(train_command, options), std::back_inserter(command));
  return command;
}

std::unique_ptr<World> world_of_ranks(const Options& options) {
  WorldOptions world;
  world.deadline_s = deadlines_of(options).usual_s;
  return make_world("mpi", world);
}

// Throws InputError if a file that the run shall write cannot be written, or if --trace-steps does
// not fit the run.
void check_outputs(const Options& options, const Job& job) {
  if (!options.trace_steps.empty()) {
    const StepList traced("--trace-steps", options.trace_steps);
    if (options.trace.empty())
      throw InputError("--trace-steps: goes with --trace FILE, which names the file");
    if (traced.last() > job.plan.training.steps)
      throw InputError(fmt::format("--trace-steps: the run ends after step {}; step {} is beyond",
                                   job.plan.training.steps, traced.last()));
  }
  if (!job.log.tensorboard.empty())
    check_writable(job.file + ": /log/tensorboard:", job.log.tensorboard + "/events");
  const std::vector<std::string> inputs = inputs_of(options, job);
  if (job.compiler_debug)
    check_dump(job.file + ": /log/folder:", debug_folder(job), job.plan.training, inputs);
  check_trace(options, inputs);
  check_writable("--report", options.report, inputs);
  check_writable("--log-json", log_file(options, job), inputs);
}

Run settled_run(const Options& options) {
  return settle_run(
      job_request(options), options, [&](const Job& job) { check_outputs(options, job); },
      printed_watch());
}

// Prints why this rank fails, in the form that the launcher expects, and ends the run. It waits a
// second in between, so that other ranks and the launcher can report too.
[[noreturn]] void end_run(World& world, int rank, const std::string& what) {
  print_to(stderr, "rank {} failed: {}\n", rank, what);
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  world.abandon(run_failed);
  std::abort();  // not reached: g++ does not know that abandon() does not return
}

// Ends the run on all ranks. It must be called in an exception handler, because it reports that
// exception.
[[noreturn]] void end_run(World& world) {
  try {
    throw;
  } catch (const NonFinite& error) {
    end_run(world, error.rank(), error.what());
  } catch (const std::exception& error) {
    end_run(world, world.rank(), error.what());
  }
  std::abort();  // not reached: every exception is a std::exception
}

int code_of(const Outcome& outcome) {
  return !outcome.complete() ? run_failed : outcome.stopped ? stopped : done;
}

// Observes the run on one rank. Rank 0 prints and logs its steps, and a rank that fails ends the
// run.
class RankReport : public RunObserver {
 public:
  RankReport(const Options& options, const Job& job, const Chosen& chosen,
             const Prediction& prediction, World& world)
      : tells_launcher_(options.as_rank), world_(world) {
    if (world.rank() == 0) log_.emplace(options, job, chosen, prediction);
  }
  void begin(int threads, const std::string& how_it_began, std::int64_t sequences) override {
    if (log_) log_->begin(threads, how_it_began, sequences);
  }
  void step(std::int64_t step, const StepResult& result,
            std::optional<double> evaluation) override {
    if (log_) log_->step(step, result, evaluation);
  }
  void end(Outcome& outcome) override {
    if (log_) log_->end(outcome);
    have_last_word(code_of(outcome));
    if (log_ && tells_launcher_) tell_ended(code_of(outcome));
  }
  void fail() override { end_run(world_); }

 private:
  bool tells_launcher_;
  World& world_;
  std::optional<TrainLog> log_;
};

// Trains this rank and returns the exit code.
int train_rank(const Options& options, const Job& job, const Chosen& chosen, World& world) try {
  TrainRequest how = options;
  how.keeps_timeline = !options.trace.empty();
  how.keeps_last_step = !options.report.empty();
  const auto observe = [&](const Prediction& prediction) {
    return std::make_unique<RankReport>(options, job, chosen, prediction, world);
  };
  const int code = code_of(train(how, job, chosen, world, observe, printed_watch()));
  // A rank that the launcher started returns 0, because the launcher knows how the run ended, and
  // mpirun would take seconds to stop ranks that fail.
  return options.as_rank ? done : code;
} catch (const RankRefuses& refusal) {
  if (refusal.reports()) std::fprintf(stderr, "error: %s\n", refusal.what());
  return bad_input;
} catch (const InputError& error) {
  // Every rank finds the same error, because what the engine cannot do follows from the plan.
  if (world.rank() == 0) std::fprintf(stderr, "error: %s\n", error.what());
  return bad_input;
} catch (const std::exception&) {
  if (world.size() > 1) end_run(world);
  throw;
}

// Holds the decision of rank 0, which it sends to the other ranks: an exit code, and if that is
// `done`, the resolved run.
struct Decision {
  int exit_code = done;
  std::string settled;
};

// Reads the decision from standard input. The launcher writes it there for rank 0, on whatever host
// this rank is.
Decision read_decision() {
  return {done, {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}};
}

// Makes the decision inside the user's own mpirun. Only rank 0 reads, measures and decides, so that
// all ranks have the same plan even if they would measure different rates.
Decision decide(const Options& options, int ranks) {
  const auto refuse = [](int exit_code, const std::string& message) {
    print_to(stderr, "{}\n", message);
    return Decision{exit_code, ""};
  };
  try {
    const Run run = settled_run(options);
    if (run.chosen.cluster.ranks() != ranks)
      throw InputError(run.job.file + ": the plan has " +
                       std::to_string(run.chosen.cluster.ranks()) + " ranks, this mpirun has " +
                       std::to_string(ranks) + "; start as many as the plan has");
    return {done, settled_text(run)};
  } catch (const InputError& error) {
    return refuse(bad_input, std::string("error: ") + error.what());
  } catch (const NoPlanFits& error) {
    return refuse(no_plan_fits, error.what());
  } catch (const std::exception& error) {
    return refuse(run_failed, std::string("error: ") + error.what());
  }
}

// Sends the decision to all ranks as a message, because the hosts need not share a folder.
void share(Communicator& all, Decision& decision) {
  all.broadcast(&decision.exit_code, sizeof decision.exit_code, 0);
  share_text(all, decision.settled);
}

Decision common_decision(const Options& options, World& world) {
  const auto all = group_of_all(world);
  Decision decision;
  if (world.rank() == 0)
    decision = options.as_rank ? read_decision() : decide(options, world.size());
  share(*all, decision);
  return decision;
}

int run_rank(const Options& options) {
  watch_for_stop();
  if (options.as_rank) tell_started();
  const auto world = world_of_ranks(options);
  if (options.as_rank && world->rank() == 0) tell_met();
  world->set_deadline(deadlines_of(options).long_s);  // reading and loading come first
  Decision decision;
  try {
    decision = common_decision(options, *world);
  } catch (const std::exception&) {
    end_run(*world);
  }
  if (decision.exit_code != done) return decision.exit_code;
  const Run run = read_settled(decision.settled);
  return train_rank(options, run.job, run.chosen, *world);
}

int launch_ranks(const Options& options, const Run& run) {
  check_named("--trace", options.trace);
  check_named("--report", options.report);
  check_named("--log-json", log_file(options, run.job));
  const bool saves = run.job.checkpoint.has_value();
  const bool imported = saves && began_with_imported_weights(run.job.checkpoint->folder);
  StartedRanks ranks;
  ranks.input = settled_text(run);
  ranks.deadline_s = deadlines_of(options).usual_s;
  // CPU ranks on this host only may get a network of their own. GPUs find each other by their own
  // means.
  ranks.own_network = run.chosen.cluster.machine.gpu.kind == DeviceKind::cpu;
  ranks.begin = saves ? "the last checkpoint" : "step 1";
  ranks.command = [&](int restarts) {
    Options own = options;
    // If the folder of imported weights was removed during the run, the mark keeps the restarted
    // ranks from beginning with random weights.
    if (restarts > 0 && imported) mark_as_imported(run.job.checkpoint->folder);
    own.resume = options.resume || (restarts > 0 && saves);
    return rank_command(own);
  };
  return run_ranks(options, run, ranks);
}

int run_train(const Options& options) {
  if (options.as_rank) return run_rank(options);
  end_on_stop_signals();
  if (options.mpi_ranks) {
    if (options.restarts)
      throw InputError(
          "train: --restarts: inside mpirun there is nobody to start the ranks again; let "
          "meshwright start mpirun itself");
    return run_rank(options);
  }
  const SageMaker container = read_sagemaker(options.sagemaker);
  if (!container.is_first()) return wait_as_other_host(container, printed_watch());
  const Run run = settled_run(options);
  if (run.chosen.cluster.ranks() > 1 || options.restarts) return launch_ranks(options, run);
  watch_for_stop();
  const auto world = make_world("self");
  return train_rank(options, run.job, run.chosen, *world);
}

}  // namespace

const Command train_command = {
    "train",
    "JOB",
    job_help,
    "run the job on this computer, under its plan",
    "json wide set profile measure-afresh trace trace-steps trace-format report steps "
    "resume allow-changed log-json hostfile deadline "
    "check-collectives no-hash allow-mpi-options restarts as-rank",
    run_train,
    "Starts the ranks with mpirun, prints a line every `log.every` steps, and at the end predicted "
    "beside measured. docs/running.md describes faults, restarts, several hosts and logs."};

}  // namespace meshwright::tools
