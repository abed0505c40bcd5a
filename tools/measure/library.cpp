#include "tools/measure/library.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/launch/run_folder.h"
#include "hwprofiles/load.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::tools {

namespace {

// Describes the job that is trained. Its parameters and activations take few MiB, and its matmuls
// are large enough for all threads.
constexpr const char* small_job = R"({
  "model": {"family": "gpt", "hidden": 64, "heads": 4, "layers": 2, "positions": 64, "vocab": 1024},
  "training": {"global_batch": 4, "micro_batch": 2, "sequence_length": 64, "precision": "fp32"},
  "cluster": {"machine": "local", "count": 1, "processes_per_host": RANKS},
  "parallelism": {"data": RANKS}
})";

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Returns this process's environment without SageMaker's variables (SM_*), which describe another
// job than the small one.
std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("SM_")) variables.emplace_back(*variable);
  return variables;
}

// Runs a command with standard output in the file `output` and without standard error. Returns
// false if the command fails or cannot be started.
bool run_quietly(std::vector<std::string> command, const std::string& output) {
  std::vector<std::string> variables = environment();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, command[0].c_str(), &files, nullptr,
                                  pointers(command).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  return failed == 0 && waitpid(child, &status, 0) == child && status == 0;
}

// Trains the small job on `ranks` ranks and returns the measured peak memory minus the planned one,
// in bytes, of the rank that holds most. Returns nothing if the run fails.
std::optional<double> beyond_plan(const Options& options, const Machine& machine, int ranks) {
  const RunFolder folder;
  const std::string job = folder.path() + "/job.json", profile = folder.path() + "/profile.json",
                    answer = folder.path() + "/answer.json";
  std::string text = small_job;
  for (auto at = text.find("RANKS"); at != std::string::npos; at = text.find("RANKS"))
    text.replace(at, 5, std::to_string(ranks));
  std::ofstream(job) << text;
  write_machine(machine, profile);
  if (!run_quietly({options.program, "train", job, "--profile", profile, "--steps", "3", "--json"},
                   answer))
    return std::nullopt;
  Fields fields = read_json_file(answer);
  return fields.required<double>("measured_peak_memory_bytes") -
         fields.required<double>("predicted_peak_memory_bytes");
}

}  // namespace

LibraryOverheads measure_library(const Options& options, Machine machine) {
  const LibraryOverheads guess{.context_bytes = 15e6, .communicator_bytes = 10e6};
  if (options.mpi_ranks) return guess;  // another mpirun cannot be started inside it
  machine.overheads = {};
  const std::optional<double> alone = beyond_plan(options, machine, 1);
  if (!alone) {
    std::fprintf(stderr, "warning: the memory of a rank could not be measured; taking a guess\n");
    return guess;
  }
  LibraryOverheads overheads{.context_bytes = std::max(0.0, *alone)};
  if (const std::optional<double> one_of_two = beyond_plan(options, machine, 2))
    overheads.communicator_bytes = std::max(0.0, *one_of_two - overheads.context_bytes);
  return overheads;
}

}  // namespace meshwright::tools
