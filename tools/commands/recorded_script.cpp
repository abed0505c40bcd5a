#include "tools/commands/recorded_script.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "exec/launch/exit_codes.h"
#include "exec/launch/run_folder.h"
#include "models/architectures/model.h"
#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/commands/python_package.h"
#include "tools/commands/script_process.h"
#include "tools/session/rehearsal.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int not_started = 125;  // exit code if Python cannot be started

// Returns the compute capability of a GPU as 10 x major + minor. Throws InputError if its profile
// lacks it.
int capability_of(const Gpu& gpu) {
  if (gpu.compute_capability > 0) return static_cast<int>(std::lround(10 * gpu.compute_capability));
  throw InputError(
      fmt::format("rehearse: the compute capability of {} is not known; give its profile "
                  "gpu.compute_capability",
                  gpu.name));
}

// Returns the path of the stand-in library for CUDA. Throws InputError if this build has none.
fs::path library_of(const std::string& program) {
  const fs::path found =
      fs::path(program).parent_path() / "python/meshwright/stand_in/libcuda.so.1";
  std::error_code error;
  if (!fs::exists(found, error))
    throw InputError(
        "rehearse: this build has no stand-in GPUs; build it where the headers of CUDA, cuDNN, "
        "NCCL "
        "and CUPTI are (docs/rehearse.md)");
  return fs::canonical(found, error);
}

void put_in_front(const char* variable, const std::string& value) {
  const char* const before = std::getenv(variable);
  const std::string all =
      before == nullptr || *before == '\0' ? value : value + ":" + std::string(before);
  setenv(variable, all.c_str(), 1);
}

void set_environment(const StandInGpus& gpus, const fs::path& library, const std::string& log,
                     const std::string& folder) {
  Cluster cluster;
  cluster.machine = gpus.machine;
  const auto bytes = [&](int ranks) {
    return std::to_string(static_cast<std::int64_t>(script_memory_bytes(cluster, ranks)));
  };
  const Gpu device = cluster.device();
  const std::pair<const char*, std::string> variables[] = {
      {"MESHWRIGHT_STAND_IN_LOG", log + "/log"},
      {"MESHWRIGHT_STAND_IN_COUNT", std::to_string(gpus.machine.gpus)},
      {"MESHWRIGHT_STAND_IN_NAME", device.name},
      {"MESHWRIGHT_STAND_IN_CAPABILITY", std::to_string(capability_of(device))},
      {"MESHWRIGHT_STAND_IN_MULTIPROCESSORS", std::to_string(device.sm_count)},
      {"MESHWRIGHT_STAND_IN_BYTES", bytes(1)},
      {"MESHWRIGHT_STAND_IN_BYTES_OF_RANKS", bytes(2)},
      {"MESHWRIGHT_STAND_IN_FOLDER", gpus.write_through ? "" : folder},
      // The stand-in of cuDNN has convolutions only in the interface before version 8.
      {"TORCH_CUDNN_V8_API_DISABLED", "1"}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  put_in_front("LD_LIBRARY_PATH", library.parent_path().string());
  put_in_front("LD_PRELOAD", library.string());
}

// Writes the models of the zoo to `folder`. A script that would download such a model gets its
// shape from there.
void write_zoo(const std::string& folder) {
  fs::create_directory(folder);
  for (const std::string& name : zoo_names())
    write_file(folder + "/" + name + ".json",
               std::string(*built_in_file(zoo_folder() + "/" + name + ".json")));
}

// Returns Python with the recorder in front of the command. Python is the command's own, the one
// beside its launcher, the one of MESHWRIGHT_PYTHON, or else python3.
Words with_recorder(const Words& asked, const Words& recorder) {
  Words command = behind_front(asked, recorder);
  if (!command.empty()) return command;
  const fs::path beside = fs::path(asked.front()).replace_filename("python3");
  std::error_code error;
  command = behind_front({"-m"}, recorder);  // python RECORDER -m
  command.pop_back();
  if (asked.front().find('/') != std::string::npos && fs::exists(beside, error))
    command.front() = beside.string();
  command.insert(command.end(), asked.begin(), asked.end());
  return command;
}

}  // namespace

std::string record_script(const std::string& program, const Words& asked, const StandInGpus& gpus) {
  if (gpus.machine.gpus < 1)
    throw InputError(fmt::format("rehearse: {} has no GPUs", gpus.machine.name));
  const fs::path library = library_of(program);
  // The script may write large files, so their folder is not the one in memory.
  const RunFolder log, folder(fs::temp_directory_path());
  const std::string file = folder.path() + "/recording.json";
  search_package(program);
  write_zoo(folder.path() + "/zoo");
  const Words command = with_recorder(
      asked, {"-m", "meshwright.rehearsal", "--out", file, "--machine", gpus.machine.name,
              "--folder", folder.path(), "--gpus", std::to_string(gpus.machine.gpus), "--hosts",
              std::to_string(gpus.hosts), "--imbalance", fmt::format("{}", gpus.imbalance),
              "--time-limit", std::to_string(gpus.time_limit_s), "--"});
  capability_of(gpus.machine.gpu);
  const int code = run_child(command, not_started, [&] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    set_environment(gpus, library, log.path(), folder.path());
  });
  if (code == not_started)
    throw InputError(fmt::format(
        "rehearse: {} cannot be started; it must be a Python with PyTorch (docs/own-model.md)",
        command.front()));
  std::error_code error;
  if (code == done && fs::exists(file, error)) return read_file(file);
  if (code == done || code == run_failed)
    throw InputError(
        "rehearse: the script's process ended, or a signal ended it, before it had made 4 steps; "
        "the system ends processes that need more memory than this computer has");
  throw ScriptFailed{code};
}

}  // namespace meshwright::tools
