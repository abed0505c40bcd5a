// Writes the files that start a training run on one or more hosts, for each launcher that clusters
// have.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright::interop {

// A word of a command. Text is passed on literally. Only a word that this program itself writes may
// be an expression, which the host's shell evaluates ("$PWD").
struct LaunchWord {
  std::string text;
  bool is_expression = false;

  LaunchWord(std::string word) : text(std::move(word)) {}  // NOLINT(google-explicit-constructor)
  LaunchWord(const char* word) : text(word) {}             // NOLINT(google-explicit-constructor)
  static LaunchWord expression(const char* word) {
    LaunchWord made(word);
    made.is_expression = true;
    return made;
  }
};

// Describes one run. Every host gets the same words, and every GPU one process.
struct Launch {
  std::string name;     // of the run, from the job
  std::string machine;  // as meshwright names it: "p4d.24xlarge"
  int hosts = 1, gpus_per_host = 1;
  // The program and its arguments, without what starts it: {"pretrain_gpt.py", "--bf16", ...} or
  // {"-m", "torchtitan.train", ...}.
  std::vector<LaunchWord> words;
  // The command that starts `words` instead of torchrun: {"accelerate", "launch", ...}. If it is
  // accelerate or deepspeed, the launch files add its options for the hosts, such as
  // --num_machines.
  std::vector<std::string> starter;
  std::map<std::string, std::string> environment;
};

struct LaunchFile {
  std::string name;
  std::string text;
  bool is_program = false;
};

// Returns the names of the known launchers, in the order of the table in launch.cpp.
const std::vector<std::string>& launcher_names();
// Returns the files with which `launcher` starts the run, or none if the launch has no words,
// because a service starts the run. Throws InputError, which names the known launchers, if
// `launcher` is unknown.
std::vector<LaunchFile> launch_files(std::string_view launcher, const Launch& launch);

}  // namespace meshwright::interop
