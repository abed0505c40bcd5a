// `train JOB`: chooses the plan, starts the ranks under mpirun (or is the only one), and says how
// it ended.
#include "tools/train.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "exec/launch/mpirun.h"
#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "tools/commands.h"
#include "tools/job_file.h"
#include "tools/machines.h"
#include "tools/measure_ranks.h"
#include "tools/report/text.h"

namespace meshwright {

namespace {

void check_runs_here(const Job& job, const Options& options) {
  for (const std::string& machine : machines_of(job.cluster))
    if (machine != "local" && options.hostfile.empty() && options.sm_hosts.empty())
      throw InputError(job.file + ": /cluster/machine: " + machine +
                       " is not this computer; train runs on machine 'local', or on the hosts of "
                       "--hostfile or SM_HOSTS. "
                       "Rehearse it here with --set cluster.machine=local --set cluster.count=1");
  if (job.checkpoint)
    throw NotSupportedYet(job.file +
                          ": /checkpoint: checkpoints are not supported yet; leave the key out");
  if (job.plan.training.steps < 1)
    throw InputError(job.file + ": /training/steps: must be at least 1");
}

// What simulates but is not executed yet is said before anything starts.
void check_executable(const Job& job, const Training& training) {
  const auto refuse = [&](const char* key, const std::string& problem) {
    throw NotSupportedYet(job.file + ": /" + key + ": " + problem);
  };
  if (training.precision != Precision::fp32)
    refuse("training/precision", "training in " + std::string(name_of(training.precision)) +
                                     " is not supported yet on a CPU; use fp32");
  if (training.compiler == CompilerLevel::full)
    refuse("training/compiler", "'full' is not supported yet by train; use none or fused");
  if (training.optimizer == OptimizerKind::lamb)
    refuse("training/optimizer", "'lamb' is not supported yet by train; use adamw, adam or sgd");
  if (job.model.head != Head::lm)
    refuse("model",
           "training a masked or question-answering head is not supported yet; use head 'lm'");
}

// A folder for what the ranks read; gone when the run is.
class RunFolder {
 public:
  RunFolder()
      : path_(std::filesystem::temp_directory_path() / ("meshwright-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The settled job and the profile it was planned with: every rank decides alike.
void write_settled(const Job& job, const Chosen& chosen, const RunFolder& folder) {
  write_job_file(job, chosen.prepared.plan, chosen.machine, chosen.count, folder.file("job.json"));
  write_machine(chosen.cluster.machine, folder.file("local.json"));
}

std::vector<std::string> rank_command(const Options& options, const RunFolder& folder) {
  std::vector<std::string> command = {options.program, "train",     folder.file("job.json"),
                                      "--as-rank",     "--profile", folder.file("local.json")};
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(name);
    command.push_back(value);
  };
  if (options.json) command.emplace_back("--json");
  add("--log-json", options.log_json);
  add("--trace", options.trace);
  if (options.steps) add("--steps", std::to_string(*options.steps));
  return command;
}

}  // namespace

int run_train(const Options& options) {
  const Job job = read_job_of(options);
  check_runs_here(job, options);
  Chosen chosen;
  try {
    chosen = choose_plan(job, machine_loader(options));
  } catch (const NoPlanFits& miss) {
    std::fprintf(stderr, "%s\n", miss.what());
    return no_plan_fits;
  }
  check_executable(job, chosen.prepared.plan.training);
  const int ranks = chosen.cluster.ranks();
  if (options.as_rank || ranks == 1 || options.mpi_ranks) {
    if (options.mpi_ranks && *options.mpi_ranks != ranks)
      throw InputError(job.file + ": the plan has " + std::to_string(ranks) +
                       " ranks, this mpirun has " + std::to_string(*options.mpi_ranks));
    return train_as_rank(options, job, chosen);
  }
  const RunFolder folder;
  write_settled(job, chosen, folder);
  MpirunOptions launch = mpirun_options(ranks);
  launch.extra = job.mpi_options;
  if (!options.hostfile.empty())
    launch.extra.insert(launch.extra.end(), {"--hostfile", options.hostfile});
  return run_mpirun(mpirun_command(launch, rank_command(options, folder)));
}

}  // namespace meshwright
