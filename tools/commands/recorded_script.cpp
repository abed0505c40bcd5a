#include "tools/commands/recorded_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "exec/launch/exit_codes.h"
#include "exec/launch/run_folder.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/commands/python_package.h"
#include "tools/commands/replaced_launcher.h"
#include "tools/commands/script_process.h"
#include "tools/session/rehearsal.h"

namespace meshwright::tools {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int not_started = 125;  // exit code of a Python that is not there

// Returns 10 x major + minor.
int capability_of(const Gpu& gpu) {
  if (gpu.compute_capability > 0) return static_cast<int>(std::lround(10 * gpu.compute_capability));
  throw InputError(
      fmt::format("rehearse: the compute capability of {} is not known; give its profile "
                  "gpu.compute_capability",
                  gpu.name));
}

Cluster cluster_of(const StandInGpus& gpus) {
  Cluster cluster;
  cluster.machine = gpus.machine;
  cluster.hosts = gpus.hosts;
  return cluster;
}

// The stand-in library, in the package beside the program.
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

void set_environment(const StandInGpus& gpus, const fs::path& library, const std::string& folder,
                     int ranks) {
  const Gpu device = cluster_of(gpus).device();
  const double bytes = script_memory_bytes(cluster_of(gpus), ranks);
  const std::pair<const char*, std::string> variables[] = {
      {"MESHWRIGHT_STAND_IN_LOG", folder + "/log"},
      {"MESHWRIGHT_STAND_IN_COUNT", std::to_string(gpus.machine.gpus)},
      {"MESHWRIGHT_STAND_IN_NAME", device.name},
      {"MESHWRIGHT_STAND_IN_CAPABILITY", std::to_string(capability_of(device))},
      {"MESHWRIGHT_STAND_IN_MULTIPROCESSORS", std::to_string(device.sm_count)},
      {"MESHWRIGHT_STAND_IN_BYTES", std::to_string(static_cast<std::int64_t>(bytes))},
      // The stand-in of cuDNN answers for convolutions by the older interface.
      {"TORCH_CUDNN_V8_API_DISABLED", "1"}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  put_in_front("LD_LIBRARY_PATH", library.parent_path().string());
  put_in_front("LD_PRELOAD", library.string());
}

}  // namespace

std::string record_script(const std::string& program, const Words& asked, const StandInGpus& gpus) {
  const ReplacedLauncher launcher = replace_launcher(asked);
  const int ranks =
      launcher.ranks.value_or(launcher.name.empty() ? 1 : gpus.hosts * gpus.machine.gpus);
  if (ranks % gpus.hosts != 0)
    throw InputError(fmt::format("rehearse: {} ranks cannot be on {} hosts in equal numbers", ranks,
                                 gpus.hosts));
  const int per_host = ranks / gpus.hosts;
  if (per_host > gpus.machine.gpus)
    throw InputError(
        fmt::format("rehearse: {} ranks need more than {} x {} with {} GPUs each; use "
                    "another --count or machine",
                    ranks, gpus.hosts, gpus.machine.name, gpus.machine.gpus));
  const fs::path library = library_of(program);
  const RunFolder folder;
  const std::string file = folder.path() + "/recording.json";
  search_package(program);
  const Words command =
      behind_front(launcher.command, {"-m", "meshwright.rehearsal", "--out", file, "--machine",
                                      gpus.machine.name, "--ranks", std::to_string(ranks),
                                      "--per-host", std::to_string(per_host), "--"});
  if (command.empty())
    throw InputError(fmt::format("rehearse: `-- python train.py ARGS` is expected, found '{}'",
                                 fmt::join(asked, " ")));
  capability_of(cluster_of(gpus).device());
  const int code = run_child(command, not_started, [&] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    set_environment(gpus, library, folder.path(), ranks);
  });
  if (code == not_started)
    throw InputError(fmt::format(
        "rehearse: {} cannot be started; it must be a Python with PyTorch (docs/own-model.md)",
        command.front()));
  if (code != done) throw ScriptFailed{code};
  return read_file(file);
}

}  // namespace meshwright::tools
