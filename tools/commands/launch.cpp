// Runs the command `launch JOB -- python train.py ARGS`, which runs the user's own training script
// by a plan. If the job has no model, the script is run first to capture it
// (tools/python/meshwright/torch). This command then makes the plan, and each rank runs the script.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "exec/launch/hosts.h"
#include "exec/launch/run_folder.h"
#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "models/job/job_overrides.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/estimator_script.h"
#include "tools/commands/python_package.h"
#include "tools/commands/ranks.h"
#include "tools/commands/replaced_launcher.h"
#include "tools/commands/script_process.h"
#include "tools/print.h"
#include "tools/session/hosts.h"
#include "tools/session/machines.h"
#include "tools/session/plan_text.h"
#include "tools/session/script_run.h"
#include "tools/session/text.h"
#include "tools/session/train.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

using Words = std::vector<std::string>;

constexpr int not_started = 1;  // exit code if Python or the front module cannot be started

// Returns the command of a rank: the script behind the module meshwright.torch.launched, which
// reports to the launcher how the script ends. Throws InputError for anything but a Python script
// or module.
Words fronted(const Words& command) {
  Words found = behind_front(command, {"-m", "meshwright.torch.launched"});
  if (found.empty())
    throw InputError(
        fmt::format("launch: `-- python train.py ARGS` is expected after the job, found '{}'; "
                    "launch starts the ranks itself",
                    fmt::join(command, " ")));
  return found;
}

// Runs a command to its end without standard input and output. Returns what run_child() returns,
// such as its exit code.
int run_quietly(const Words& command) {
  return run_child(command, not_started, [] {
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
  });
}

// Is thrown if the script does not come to its first step. The script has printed why.
struct NotCaptured {
  int exit_code;
};

// Returns the job with what the script adds: its captured model, and the training that it asks for.
// Throws InputError if the script cannot be started, and NotCaptured if it fails.
json captured_job(const json& job, const Words& command, const std::string& folder) {
  write_file(folder + "/job.json", job.dump());
  setenv("MESHWRIGHT_JOB", (folder + "/job.json").c_str(), 1);
  setenv("MESHWRIGHT_CAPTURE", folder.c_str(), 1);
  const int code = run_quietly(command);
  unsetenv("MESHWRIGHT_JOB");
  unsetenv("MESHWRIGHT_CAPTURE");
  if (code == not_started)
    throw InputError(
        fmt::format("launch: {} cannot run the script; meshwright.torch needs Python with PyTorch "
                    "(docs/own-model.md)",
                    command.front()));
  if (code != done) throw NotCaptured{code};
  return parse_json(read_file(folder + "/captured.json"), "the captured job");
}

std::vector<std::string> training_keys(const json& job) {
  std::vector<std::string> keys;
  if (job.contains("training") && job["training"].is_object())
    for (const auto& [key, value] : job["training"].items()) keys.push_back(key);
  return keys;
}

int predict_only(const Options& options, const std::string& job) {
  Options own = options;
  own.operands.resize(1);
  own.jobs[own.operands.front()] = job;
  own.command = simulate_command.name;
  return simulate_command.run(own);
}

// Returns the names of the variables that ranks on other hosts inherit from this process.
Words variables_for_hosts() {
  Words names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each, name = text.substr(0, text.find('='));
    for (const char* prefix : {"PYTHON", "MESHWRIGHT_", "SM_", "HF_", "OMP_NUM_THREADS"})
      if (name.starts_with(prefix)) names.push_back(name);
  }
  return names;
}

void prepare_environment(const Options& options, const Run& run) {
  const int threads = threads_per_rank(options.threads, run.chosen.cluster.processes_per_host);
  setenv("MESHWRIGHT_LAUNCHED", "1", 1);
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  setenv("PYTHONUNBUFFERED", "1", 0);
  if (options.deadline) setenv("MESHWRIGHT_DEADLINE", std::to_string(*options.deadline).c_str(), 1);
}

// Prints a note if the launcher that this command replaces was asked for another number of ranks,
// and a note on its options that have no effect.
void say_replaced(const ReplacedLauncher& launcher, int ranks) {
  if (launcher.ranks && *launcher.ranks != ranks)
    print_to(stderr, "note: {} was asked for {} ranks; the job has {}, which launch starts\n",
             launcher.name, *launcher.ranks, ranks);
  if (!launcher.lost.empty())
    print_to(stderr,
             "note: options of {} without effect: {}; those of launch are --hostfile, --restarts, "
             "--deadline and the job's\n",
             launcher.name, launcher.lost);
}

int run_settled(const Options& options, const Words& command, const ReplacedLauncher& launcher,
                const std::string& settled, const std::vector<std::string>& given,
                const Words& mpi_options) {
  Run run = read_settled(settled);
  run.job.mpi_options = mpi_options;  // a settled job leaves them out
  const Prediction prediction = predict_chosen(run.job, run.chosen);
  print_to(stderr, "{}\npredicted: {} a step, {} on the fullest rank\n",
           plan_text(run.chosen.compiled.plan), show_seconds(prediction.step_time_s),
           show_bytes(static_cast<double>(prediction.peak_memory_bytes)));
  say_replaced(launcher, run.chosen.cluster.ranks());
  prepare_environment(options, run);
  StartedRanks ranks;
  ranks.input = json{
      {"settled", parse_json(settled, "the settled run")},
      {"captured", parse_json(read_file(run.job.model_path), run.job.model_path)},
      {"given",
       given}}.dump();
  ranks.deadline_s = deadlines_of(options).long_s;
  ranks.variables = variables_for_hosts();
  ranks.begin = "where the script resumes";
  ranks.command = [&](int) { return command; };
  return run_ranks(options, run, ranks);
}

// Returns the words after the job, or else the command of the estimator's script.
Words asked_command(const Options& options) {
  if (options.from.size() > 1) throw InputError("launch: --from: takes one estimator");
  if (options.operands.size() > 1) return {options.operands.begin() + 1, options.operands.end()};
  return estimator_script(options.from.empty() ? "" : options.from.front());
}

// Returns the options with a hostfile of the hosts of this Slurm job. They stay as they are outside
// of Slurm, if hosts are named in another way, or if there is only one host.
Options with_hosts_of_slurm(Options options, const std::string& folder) {
  const char* list = std::getenv("SLURM_JOB_NODELIST");
  if (list == nullptr || !options.hostfile.empty() || !options.sagemaker.hosts.empty())
    return options;
  const std::vector<std::string> hosts = hosts_of_slurm(list);
  if (hosts.size() < 2) return options;
  std::string text;
  for (const std::string& host : hosts) text += host + " slots=99999\n";
  options.hostfile = folder + "/SLURM_JOB_NODELIST";
  write_file(options.hostfile, text);
  return options;
}

int run_launch(const Options& asked) try {
  end_on_stop_signals();
  if (asked.operands.empty()) throw InputError("launch: expected a job file");
  const ReplacedLauncher launcher = replace_launcher(asked_command(asked));
  const Words command = fronted(launcher.command);
  const RunFolder folder;
  const Options options = with_hosts_of_slurm(asked, folder.path());
  if (options.mpi_ranks)
    throw InputError("launch: this process is inside mpirun; start launch without it");
  const SageMaker container = read_sagemaker(options.sagemaker);
  if (!container.is_first()) return wait_as_other_host(container, printed_watch());
  search_package(options.program);
  JobRequest request = job_request(options, options.operands.front());
  json job = parse_json(read_file(request.file), request.file);
  for (const std::string& each : options.set) apply_override(job, each, request.file);
  const std::vector<std::string> given = training_keys(job);
  if (job.is_object() && !job.contains("model")) job = captured_job(job, command, folder.path());
  request.text = job.dump();
  if (options.dry_run) return predict_only(options, *request.text);
  const Job read = read_job_of(request, {});
  check_can_run(read, request, options);
  return run_settled(options, command, launcher, settle_script(request, options, 0, shown_watch()),
                     given, read.mpi_options);
} catch (const NotCaptured& script) {
  return script.exit_code;
}

}  // namespace

const Command launch_command = {
    "launch",
    "JOB",
    "the job file (JSON), whose `model` may be missing; after `--`: python and the script",
    "run your own training script by a plan",
    "dry-run json set profile prices from hostfile deadline allow-mpi-options restarts",
    run_launch,
    "`meshwright launch JOB -- python train.py ARGS` starts the script as every rank. If the job "
    "has no model, the script is first run alone up to its first step, which captures it. "
    "docs/launch.md says what a script needs and how it is supervised."};

}  // namespace meshwright::tools
