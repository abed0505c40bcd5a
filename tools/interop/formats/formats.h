// Reads files of settings as flat lists. Every error is an InputError with the file and the line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/interop/settings.h"
#include "tools/interop/shell/run.h"

namespace meshwright::interop {

// Read a nested file. Names are joined with dots, and a list is one value, as JSON. Values keep the
// types that YAML and TOML give them: 8 is a number, "8" a string. A word in
// capitals where JSON has a value, as in templates ("stage": ZERO_STAGE), is a variable, which
// `defines` may give a value. Tags, anchors that refer to
// themselves, several documents and repeated keys are errors.
Settings read_yaml(const std::string& text, const std::string& file);
Settings read_toml(const std::string& text, const std::string& file);
Settings read_json(const std::string& text, const std::string& file,
                   const std::map<std::string, std::string>& defines = {});

// Read the program, or the notebook, that starts a training job of SageMaker
// (python/read_python.cpp): the arguments of its estimator as a nested file. `defines` gives names
// of the program their values.
Settings read_python(const std::string& text, const std::string& file,
                     const std::map<std::string, std::string>& defines);
Settings read_notebook(const std::string& text, const std::string& file,
                       const std::map<std::string, std::string>& defines);

// Returns settings of YAML with the references of OmegaConf replaced by what they refer to. What
// cannot be resolved stays as it is written, and `???` becomes null.
Settings with_references_resolved(const Settings& settings);

// Reads the arguments of a command line (`--name value`, `--name=value`, `--flag`, several values
// as a list; `trainer.devices=8` as Hydra has it), alone or in a shell script. `_` in their names
// becomes `-`.
//
// Only one command of a script counts: the one that starts a Python program with arguments of a
// training. Helper programs are passed over, and a second training is an error. The options of what
// starts it become settings ("torchrun.nnodes", "mpirun.np": shell/starters.cpp), `#SBATCH` lines
// "sbatch.nodes", exported variables "env.NCCL_DEBUG", and the program itself is "program".
//
// Nothing is executed (shell/run.h): `$(command)` and variables from elsewhere stay as they are
// written, so they are no numbers. What the reader had to assume are notes of the settings.
struct ReadScript {
  Settings settings;
  std::map<std::string, std::string> written;  // files that the script writes, by name
  std::vector<std::string> missing;            // scripts that it starts, but that are not given
  bool has_start = false;                      // a command starts a program of Python
};
ReadScript read_script(const std::string& text, const std::string& file,
                       const ShellSources& sources);
Settings read_arguments(const std::string& text, const std::string& file);  // without sources

}  // namespace meshwright::interop
