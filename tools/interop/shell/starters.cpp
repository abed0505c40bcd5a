#include "tools/interop/shell/starters.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace meshwright::interop {

namespace {

// Options of torchrun (torch.distributed.run) and of the older torch.distributed.launch (PyTorch
// 2.9, run.py).
constexpr RankStarterOption of_torchrun[] = {
    {"--nnodes", "nnodes"},
    {"--nproc_per_node --nproc-per-node", "nproc-per-node"},
};
// Options of deepspeed's launcher (0.18, deepspeed/launcher/runner.py).
constexpr RankStarterOption of_deepspeed[] = {
    {"--num_gpus --num-gpus", "num-gpus"}, {"--num_nodes --num-nodes", "num-nodes"},
    {"-H --hostfile", "hostfile"},         {"-i --include", "include"},
    {"-e --exclude", "exclude"},
};
// Options of `accelerate launch` (1.12, accelerate/commands/launch.py). huggingface/names.cpp reads
// some others.
constexpr RankStarterOption of_accelerate[] = {
    {"--num_processes --num-processes", "num-processes"},
    {"--num_machines --num-machines", "num-machines"},
    {"--config_file --config-file", "config-file"},
};
// Options of mpirun and its like: manual pages of Open MPI (prun is of its PRRTE), of MPICH's
// mpiexec.hydra, and of horovodrun.
constexpr RankStarterOption of_mpirun[] = {
    {"-np --np -n --n", "np"},
    {"-npernode --npernode -N -ppn --ppn -perhost --ntasks-per-node", "npernode"},
    {"--map-by -map-by", "map-by"},
    {"-H --host -host --hosts -hosts", "host"},
    {"--hostfile -hostfile --machinefile -machinefile -f", "hostfile"},
};
// Options of sbatch and srun (Slurm 25.05, manual pages).
constexpr RankStarterOption of_slurm[] = {
    {"-N --nodes", "nodes"},
    {"-n --ntasks", "ntasks"},
    {"--ntasks-per-node --tasks-per-node", "ntasks-per-node"},
    {"-G --gpus", "gpus"},
    {"--gpus-per-node", "gpus-per-node"},
    {"--gpus-per-task", "gpus-per-task"},
    {"--gres", "gres"},
    {"-J --job-name", "job-name"},
    {"-A --account", "account"},
    {"-p --partition", "partition"},
    {"-t --time", "time"},
    {"-c --cpus-per-task", "cpus-per-task"},
    {"-o --output", "output"},
    {"-e --error", "error"},
    {"-w --nodelist", "nodelist"},
    {"-x --exclude", "exclude"},
    {"-q --qos", "qos"},
    {"-D --chdir", "chdir"},
};
// Options of Cray's aprun, of IBM's jsrun and of Flux.
constexpr RankStarterOption of_aprun[] = {{"-n --pes", "ntasks"},
                                          {"-N --pes-per-node", "ntasks-per-node"}};
constexpr RankStarterOption of_jsrun[] = {{"-n --nrs", "nrs"},
                                          {"-r --rs_per_host", "rs-per-host"},
                                          {"-a --tasks_per_rs", "tasks-per-rs"}};
constexpr RankStarterOption of_flux[] = {{"-N --nodes", "nodes"}, {"-n --ntasks", "ntasks"}};
// torchtune's `tune run` takes torchrun's options (torchtune 0.6, _cli/run.py), so it is in the row
// of torchrun.

constexpr RankStarter starters[] = {
    {"torchrun torch.distributed.run torch.distributed.launch tune", "torchrun", of_torchrun},
    {"deepspeed deepspeed.launcher.runner", "deepspeed", of_deepspeed},
    {"accelerate accelerate.commands.launch accelerate-launch", "accelerate", of_accelerate},
    {"mpirun mpiexec mpiexec.hydra orterun prun prte horovodrun", "mpirun", of_mpirun},
    {"srun", "srun", of_slurm},
    {"sbatch salloc", "sbatch", of_slurm},
    {"aprun", "aprun", of_aprun},
    {"jsrun", "jsrun", of_jsrun},
    {"flux", "flux", of_flux},
};

constexpr std::string_view wrappers =
    "env nohup time exec command sudo numactl taskset timeout stdbuf nice ionice nsys ncu dlprof "
    "kernprof viztracer py-spy rocprof strace gdb singularity apptainer docker podman enroot conda "
    "mamba "
    "micromamba uv poetry pixi pipenv bash sh zsh ssh pdsh xargs script unbuffer catchsegv "
    "xvfb-run ray bindpcie";
constexpr std::string_view idle =
    "echo printf cat tee cp mv rm ls ln mkdir rmdir touch chmod chown sed awk gawk grep egrep find "
    "wc head tail "
    "sort uniq cut tr diff du df tar zip unzip gzip gunzip wget curl aws gsutil rsync scp git pip "
    "pip3 apt apt-get yum module which type command -v cd pushd popd vim vi nano less more date "
    "sleep wait kill pkill "
    "ps top nvidia-smi hostname pwd test stat basename dirname realpath readlink source sync "
    "ulimit "
    "umask trap alias log info die error usage print logger md5sum sha256sum file xdg-open pylint "
    "black isort flake8 ruff mypy pytest make cmake";

bool holds(std::string_view list, std::string_view word) {
  for (std::size_t at = 0; !word.empty() && (at = list.find(word, at)) != std::string_view::npos;
       at += word.size()) {
    const std::size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// A word of a command that is an option: its row, or null if no row has it, its spelling without a
// value, and the value if the word holds one.
struct FoundOption {
  const RankStarterOption* row = nullptr;
  std::string spelled, value;
  bool has_value = false;
};

FoundOption option_in(const std::string& word, std::span<const RankStarterOption> rows) {
  FoundOption found;
  found.spelled = word.substr(0, word.find('='));
  if (const std::size_t equals = word.find('='); equals != std::string::npos) {
    found.value = word.substr(equals + 1);
    found.has_value = true;
  }
  for (const RankStarterOption& row : rows)
    if (holds(row.spellings, found.spelled)) {
      found.row = &row;
      return found;
    }
  // An option such as -N4 holds its number in the same word.
  if (word.size() > 2 && word[0] == '-' && is_letter(word[1]) && word[2] >= '0' && word[2] <= '9')
    for (const RankStarterOption& row : rows)
      if (holds(row.spellings, word.substr(0, 2)))
        return {&row, word.substr(0, 2), word.substr(2), true};
  return found;
}

bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         (is_letter(word[1]) || (word[1] == '-' && word.size() > 2));
}

void add_options(const RankStarter& starter, std::span<const ShellWord> words,
                 std::vector<StarterSetting>& all) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (!looks_like_option(word)) {
      // Options after a wrapper or Python are those of the program that is started, as in srun bash
      // -c.
      if (i > 0 && (is_wrapper(word) || is_python(word))) return;
      continue;
    }
    FoundOption option = option_in(word, starter.options);
    if (option.row == nullptr && !word.starts_with("--")) continue;  // a short option without a row
    const bool may_follow = i + 1 < words.size() && !looks_like_option(words[i + 1].text) &&
                            !is_wrapper(words[i + 1].text) && !is_python(words[i + 1].text);
    if (!option.has_value && may_follow) option.value = words[i + 1].text;
    std::string name =
        option.row != nullptr ? std::string(option.row->name) : option.spelled.substr(2);
    std::ranges::replace(name, '_', '-');
    all.push_back({std::string(starter.key) + "." + name,
                   std::string(starter.key) + " " + option.spelled,
                   !option.has_value && !may_follow ? "true" : option.value, words[i]});
  }
}

// Adds settings for the numbers of nodes, GPUs and processes in a resource list such as
// select=4:ngpus=8.
void add_resources(const std::string& text, const ShellWord& word, const char* shown,
                   std::vector<StarterSetting>& all) {
  std::string parts = text;
  std::ranges::replace(parts, ':', ' ');
  std::ranges::replace(parts, ',', ' ');
  std::istringstream stream(parts);
  for (std::string part; stream >> part;) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = part.substr(0, equals), value = part.substr(equals + 1);
    const char* meaning = name == "select" || name == "nodes" || name == "node" ? "sbatch.nodes"
                          : name == "ngpus" || name == "gpus" || name == "gpu"
                              ? "sbatch.gpus-per-node"
                          : name == "mpiprocs" || name == "ppn" ? "sbatch.ntasks-per-node"
                                                                : nullptr;
    if (meaning != nullptr) all.push_back({meaning, shown + (" " + name), value, word});
  }
}

}  // namespace

std::string program_of(const std::string& word) { return word.substr(word.rfind('/') + 1); }

const RankStarter* starter_of(const std::string& word) {
  const std::string program = program_of(word);
  for (const RankStarter& starter : starters)
    if (holds(starter.programs, program)) return &starter;
  return nullptr;
}

bool is_wrapper(const std::string& word) {
  return holds(wrappers, program_of(word)) || starter_of(word) != nullptr;
}

bool is_python(const std::string& word) {
  const std::string program = program_of(word);
  if (!program.starts_with("python")) return program == "ipython" || program == "pypy3";
  return program.find_first_not_of("0123456789.", 6) == std::string::npos;
}

bool starts_nothing(const std::string& word) { return holds(idle, program_of(word)); }

std::vector<StarterSetting> starter_settings(std::span<const ShellWord> words) {
  std::vector<StarterSetting> all;
  const RankStarter* current = nullptr;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= words.size(); ++i) {
    const RankStarter* next = i < words.size() ? starter_of(words[i].text) : nullptr;
    if (i < words.size() && next == nullptr) continue;
    if (current != nullptr) add_options(*current, words.subspan(begin, i - begin), all);
    current = next;
    begin = i + 1;
  }
  return all;
}

std::vector<StarterSetting> queue_settings(const ShellWord& comment) {
  std::istringstream stream(comment.text.substr(0, comment.text.find(" #", 1)));
  std::string mark;
  stream >> mark;
  std::vector<ShellWord> words;
  for (std::string word; stream >> word;) {
    std::erase(word, '"');
    words.push_back({word, comment.line, comment.file});
  }
  std::vector<StarterSetting> all;
  if (mark == "#SBATCH") {
    add_options(*starter_of("sbatch"), words, all);
    for (StarterSetting& each : all) each.shown.replace(0, 6, "#SBATCH");
  }
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i].text;
    if ((mark == "#PBS" && word == "-l") || (mark == "#PJM" && word == "-L"))
      add_resources(words[i + 1].text, words[i], mark.c_str(), all);
    if (mark == "#BSUB" && (word == "-nnodes" || word == "-nodes"))
      all.push_back({"sbatch.nodes", "#BSUB " + word, words[i + 1].text, words[i]});
    if (mark == "#COBALT" && word == "-n")
      all.push_back({"sbatch.nodes", "#COBALT -n", words[i + 1].text, words[i]});
  }
  return all;
}

}  // namespace meshwright::interop
