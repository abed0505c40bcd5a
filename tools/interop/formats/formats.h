// Files of settings, read as flat lists. Every error is an InputError with the file and the line.
#pragma once

#include <string>

#include "tools/interop/settings.h"

namespace meshwright {

// Nested names are joined with dots; a list is one value, as JSON. YAML's and TOML's words keep
// their types: 8 is a number, "8" a string. Tags, anchors that refer to themselves, several
// documents and repeated keys are errors.
Settings read_yaml(const std::string& text, const std::string& file);
Settings read_toml(const std::string& text, const std::string& file);
Settings read_json(const std::string& text, const std::string& file);

// Arguments of a command line (`--name value`, `--name=value`, `--flag`, several values as a list;
// `_` in names is `-`), alone or in a shell script. Of a script the one command counts that starts
// a Python program (`... pretrain_gpt.py --bf16`, `... -m torchtitan.train`): what stands before
// the program are settings of its launcher ("torchrun.nnodes"), `#SBATCH` lines are "sbatch.nodes",
// exported variables "env.NCCL_DEBUG", and the program itself is "program". Assignments, arrays,
// line continuations and $((arithmetic)) are resolved; nothing is executed: `$(command)` and
// variables from elsewhere stay as they are written, and are no numbers. A second such command is
// an error.
Settings read_arguments(const std::string& text, const std::string& file);

}  // namespace meshwright
