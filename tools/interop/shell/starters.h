// Describes the programs that start the ranks of a run, and those of their options that are of
// interest, mostly the numbers of hosts and processes. A starter is a row of a table in
// starters.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/shell/variables.h"

namespace meshwright::interop {

struct RankStarterOption {
  std::string_view spellings;  // as a command has them, separated by blanks: "-N --nodes"
  std::string_view name;       // of the setting: "nodes"
};

struct RankStarter {
  std::string_view programs;  // separated by blanks, without folders
  std::string_view key;       // of its settings: "srun" for "srun.nodes"
  std::span<const RankStarterOption> options;
};

// An option of a starter, as a setting.
struct StarterSetting {
  std::string name;   // "srun.nodes"; an option without a row keeps its name, with - for _
  std::string shown;  // "srun -N"
  std::string value;  // "true" for an option without a value
  ShellWord word;     // the option's word, for its place
};

// Returns the starter that a word names, with or without folders, or null.
const RankStarter* starter_of(const std::string& word);
// is_wrapper() returns whether a word names a program that runs the command after it, such as env,
// bash or a starter. is_python() returns whether a word names a Python interpreter.
bool is_wrapper(const std::string& word);
bool is_python(const std::string& word);
// Returns whether a command with this name starts no run, whatever its arguments say: echo, cp, ...
bool starts_nothing(const std::string& word);
// Returns a path without its folders.
std::string program_of(const std::string& word);

// Returns the settings that the options of all starters in `words` give.
std::vector<StarterSetting> starter_settings(std::span<const ShellWord> words);
// Returns the settings of a comment for a queue: `#SBATCH --nodes=2 # hosts`, `#PBS -l select=2`,
// `#BSUB -nnodes 2`, `#PJM -L node=2`, `#COBALT -n 2`. Empty for other comments.
std::vector<StarterSetting> queue_settings(const ShellWord& comment);

}  // namespace meshwright::interop
