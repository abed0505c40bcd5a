#include "tools/interop/launch/launch.h"

#include <algorithm>
#include <array>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/quote.h"
#include "tools/interop/launch/parts.h"

namespace meshwright::interop {

namespace {

// A file that a launcher needs. The rows of one launcher follow each other.
struct Launcher {
  const char* name;
  const char* file;
  std::string (*text)(const Launch&);
  bool is_program;
};
constexpr std::array<Launcher, 5> launchers = {{
    {"slurm", "run.sbatch", slurm_script, true},
    {"torchrun", "run_torchrun.sh", torchrun_script, true},
    {"mpirun", "run_mpirun.sh", mpirun_script, true},
    {"kubernetes", "train_job.yaml", train_job, false},
    {"kubernetes", "pytorch_job.yaml", pytorch_job, false},
}};

}  // namespace

const std::vector<std::string>& launcher_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Launcher& each : launchers)
      if (all.empty() || all.back() != each.name) all.emplace_back(each.name);
    return all;
  }();
  return names;
}

std::vector<LaunchFile> launch_files(std::string_view launcher, const Launch& launch) {
  const std::vector<std::string>& known = launcher_names();
  if (std::find(known.begin(), known.end(), launcher) == known.end())
    throw InputError("unknown launcher '" + std::string(launcher) +
                     "'; known: " + list_of(known, "and"));
  std::vector<LaunchFile> files;
  if (launch.words.empty()) return files;  // a service starts the run
  for (const Launcher& each : launchers)
    if (launcher == each.name) files.push_back({each.file, each.text(launch), each.is_program});
  return files;
}

Starter starter_of(const Launch& launch) {
  if (launch.starter.empty() || launch.starter.front() == "torchrun") return Starter::torchrun;
  if (launch.starter.front() == "accelerate") return Starter::accelerate;
  if (launch.starter.front() == "deepspeed") return Starter::deepspeed;
  return Starter::plain;
}

Words start_on_host(const Launch& launch, const HostExpressions& place) {
  Words words;
  for (const std::string& word : launch.starter) words.push_back(shell_word(word));
  const std::string hosts = std::to_string(launch.hosts);
  const std::string ranks = std::to_string(launch.hosts * launch.gpus_per_host);
  const auto add = [&](const Words& more) { words.insert(words.end(), more.begin(), more.end()); };
  if (starter_of(launch) == Starter::accelerate) {
    add({"--num_machines", hosts, "--num_processes", ranks, "--machine_rank", place.rank});
    if (launch.hosts > 1)
      add({"--main_process_ip", place.address, "--main_process_port", place.port});
  } else if (starter_of(launch) == Starter::deepspeed) {
    if (launch.hosts == 1)
      add({"--num_gpus", ranks});
    else
      add({"--hostfile", "hostfile", "--no_ssh", "--node_rank", place.rank, "--master_addr",
           place.address, "--master_port", place.port});
  }
  return words;
}

Words quoted_words(const Launch& launch) {
  Words words;
  for (const LaunchWord& word : launch.words)
    words.push_back(word.is_expression ? "\"" + word.text + "\"" : shell_word(word.text));
  return words;
}

std::string exports(const std::map<std::string, std::string>& environment) {
  std::string text;
  for (const auto& [name, value] : environment)
    text += "export " + name + "=" + shell_word(value) + "\n";
  return text;
}

std::string command_text(const Words& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_name = words[i].starts_with("--");
    const bool is_program = words[i].ends_with(".py") || words[i] == "-m" ||
                            words[i] == "torchrun" || words[i] == "bash";
    if (i > 0) text += is_name || is_program ? " \\\n  " : " ";
    text += words[i];
  }
  return text + "\n";
}

}  // namespace meshwright::interop
