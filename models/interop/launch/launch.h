// What starts a training run on several hosts, for each of the launchers that clusters have.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// One run: the same words on every host, where a launcher of the framework's starts one process a
// GPU.
struct Launch {
  std::string name;     // of the run, from the job
  std::string machine;  // as meshwright names it: "p4d.24xlarge"
  int hosts = 1, gpus_per_host = 1;
  // The program and its arguments, without what starts it: {"pretrain_gpt.py", "--bf16", ...} or
  // {"-m", "torchtitan.train", ...}. Words that begin with `$` are left to the shell.
  std::vector<std::string> words;
  // Instead of torchrun, which starts `words` elsewhere: {"accelerate", "launch", ...}; the
  // launcher adds --num_machines and the like by itself where it knows them.
  std::vector<std::string> starter;
  std::map<std::string, std::string> environment;
};

struct LaunchFile {
  std::string name;
  std::string text;
  bool is_program = false;
};

// slurm (an sbatch script), torchrun (a script for each host), mpirun, kubernetes (Kubeflow's
// TrainJob and PyTorchJob).
const std::vector<std::string>& launcher_names();
// Unknown: InputError that names the known ones.
std::vector<LaunchFile> launch_files(std::string_view launcher, const Launch& launch);

// A word as a POSIX shell reads it back: quoted where it has to be.
std::string shell_word(std::string_view word);

}  // namespace meshwright
