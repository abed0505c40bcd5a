// `train JOB`: chooses the plan, starts the ranks under mpirun (or is the only one, or one of the
// user's own mpirun), and says how it ended.
#include "tools/train.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <numeric>

#include "exec/launch/mpirun.h"
#include "exec/launch/restarts.h"
#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/commands.h"
#include "tools/machines.h"
#include "tools/measure_ranks.h"
#include "tools/settle_run.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

std::vector<std::string> rank_command(const Options& options, const RunFolder& folder) {
  std::vector<std::string> command = {options.program, "train",     folder.job(),
                                      "--as-rank",     "--profile", folder.profile()};
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(name);
    command.push_back(value);
  };
  if (options.json) command.emplace_back("--json");
  if (options.resume) command.emplace_back("--resume");
  if (options.check_collectives) command.emplace_back("--check-collectives");
  if (options.deadline) add("--deadline", std::to_string(*options.deadline));
  if (isatty(fileno(stderr)) != 0) command.emplace_back("--progress");
  add("--log-json", options.log_json);
  add("--trace", options.trace);
  add("--trace-steps", options.trace_steps);
  add("--report", options.report);
  return command;
}

std::unique_ptr<World> world_of_ranks(const Options& options) {
  WorldOptions world;
  if (options.deadline) world.deadline_s = *options.deadline;
  return make_world("mpi", world);
}

// One of our own ranks: the job is settled.
int run_rank(const Options& options, World& world) {
  const Job job = read_job_of(options);
  return train_as_rank(options, job, choose_plan(job, machine_loader(options)), world);
}

// What rank 0 decided, for the others: an exit code, or the settled job and its profile.
struct Decision {
  int exit_code = done;
  std::string job, profile;
};

Decision decide(const Options& options, int ranks, const RunFolder& folder) {
  const auto refuse = [](int exit_code, const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    return Decision{exit_code, "", ""};
  };
  try {
    const Run run = settle_run(options);
    if (run.chosen.cluster.ranks() != ranks)
      throw InputError(run.job.file + ": the plan has " +
                       std::to_string(run.chosen.cluster.ranks()) + " ranks, this mpirun has " +
                       std::to_string(ranks) + "; start as many as the plan has");
    write_settled(run, folder);
    return {done, read_file(folder.job()), read_file(folder.profile())};
  } catch (const InputError& error) {
    return refuse(bad_input, std::string("error: ") + error.what());
  } catch (const NoPlanFits& error) {
    return refuse(no_plan_fits, error.what());
  } catch (const std::exception& error) {
    return refuse(run_failed, std::string("error: ") + error.what());
  }
}

void share(Communicator& all, Decision& decision) {
  std::array<std::int64_t, 3> head = {decision.exit_code,
                                      static_cast<std::int64_t>(decision.job.size()),
                                      static_cast<std::int64_t>(decision.profile.size())};
  all.broadcast(head.data(), sizeof head, 0);
  decision.exit_code = static_cast<int>(head[0]);
  decision.job.resize(static_cast<std::size_t>(head[1]));
  decision.profile.resize(static_cast<std::size_t>(head[2]));
  if (decision.exit_code != done) return;
  all.broadcast(decision.job.data(), head[1], 0);
  all.broadcast(decision.profile.data(), head[2], 0);
}

// Inside the user's own mpirun: rank 0 reads, measures and decides, and the others follow, so that
// all have the same plan whatever each would have measured.
int train_inside_mpirun(const Options& options) {
  const auto world = world_of_ranks(options);
  std::vector<int> everybody(static_cast<std::size_t>(world->size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto all = world->group(GroupKind::world, everybody);
  const RunFolder folder;
  Decision decision;
  if (world->rank() == 0) decision = decide(options, world->size(), folder);
  share(*all, decision);
  if (decision.exit_code != done) return decision.exit_code;
  write_file(folder.job(), decision.job);
  write_file(folder.profile(), decision.profile);
  Options own = options;
  own.operands = {folder.job()};
  own.local_profile = folder.profile();
  own.set.clear();
  own.as_rank = true;
  return run_rank(own, *world);
}

}  // namespace

int run_train(const Options& options) {
  if (options.as_rank) {
    watch_for_stop();
    const auto world = world_of_ranks(options);
    return run_rank(options, *world);
  }
  if (options.mpi_ranks) {
    if (options.restarts)
      throw InputError(
          "train: --restarts: inside mpirun there is nobody to start the ranks again; let "
          "meshwright "
          "start mpirun itself");
    watch_for_stop();
    return train_inside_mpirun(options);
  }
  const Run run = settle_run(options);
  const int ranks = run.chosen.cluster.ranks();
  if (ranks == 1 && !options.restarts) {
    watch_for_stop();
    const auto world = make_world("self");
    return train_as_rank(options, run.job, run.chosen, *world);
  }
  const RunFolder folder;
  write_settled(run, folder);
  MpirunOptions launch = mpirun_options(ranks);
  launch.extra = run.job.mpi_options;
  if (!options.hostfile.empty())
    launch.extra.insert(launch.extra.end(), {"--hostfile", options.hostfile});
  const bool saves = run.job.checkpoint.has_value();
  const auto start = [&](int restarts) {
    Options own = options;
    own.resume = options.resume || (restarts > 0 && saves);
    return run_mpirun(mpirun_command(launch, rank_command(own, folder)));
  };
  return run_with_restarts({options.restarts.value_or(0)}, start,
                           [&] { return saves ? "the last checkpoint" : "step 1"; });
}

}  // namespace meshwright
