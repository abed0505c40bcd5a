// Reads files of settings as flat lists. Every error is an InputError with the file and the line.
#pragma once

#include <string>

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Read a nested file. Names are joined with dots, and a list is one value, as JSON. Values keep the
// types that YAML and TOML give them: 8 is a number, "8" a string. Tags, anchors that refer to
// themselves, several documents and repeated keys are errors.
Settings read_yaml(const std::string& text, const std::string& file);
Settings read_toml(const std::string& text, const std::string& file);
Settings read_json(const std::string& text, const std::string& file);

// Reads the arguments of a command line (`--name value`, `--name=value`, `--flag`, several values
// as a list), alone or in a shell script. `_` in their names becomes `-`.
//
// Only one command of a script counts: the one that starts a Python program (`... pretrain_gpt.py
// --bf16`, `... -m torchtitan.train`) with arguments. A second one is an error. The options before
// the program are settings of its launcher ("torchrun.nnodes"), `#SBATCH` lines become
// "sbatch.nodes", exported variables "env.NCCL_DEBUG", and the program itself is "program".
//
// Assignments, arrays, line continuations and $((arithmetic)) are resolved, but nothing is
// executed: `$(command)` and variables from elsewhere stay as they are written, so they are no
// numbers.
Settings read_arguments(const std::string& text, const std::string& file);

}  // namespace meshwright::interop
