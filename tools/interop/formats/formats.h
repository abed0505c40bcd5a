// Reads files of settings as flat lists. Every error is an InputError with the file and, if the
// problem has a place in it, the line.
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
// (python/read_python.cpp). The arguments of its estimator become settings as those of a nested
// file. `defines` gives names of the program their values.
Settings read_python(const std::string& text, const std::string& file,
                     const std::map<std::string, std::string>& defines);
Settings read_notebook(const std::string& text, const std::string& file,
                       const std::map<std::string, std::string>& defines);

// Returns settings of YAML with the references of OmegaConf replaced by their values. A reference
// that cannot be resolved, or that is inside a list, stays as it is written. `???` becomes null,
// with a note.
Settings with_references_resolved(const Settings& settings);

// Reads the arguments of a command line (`--name value`, `--name=value`, `--flag`, several values
// as a list; `trainer.devices=8` as Hydra has it), alone or in a shell script. `_` in the names of
// options becomes `-`.
//
// Only one command of a script counts: the one that starts a Python program and most looks like a
// training. If another program looks as much like one, that is an error. The options of the
// commands that start the program become settings ("torchrun.nnodes", "mpirun.np":
// shell/starters.cpp), `#SBATCH` lines "sbatch.nodes", exported variables "env.NCCL_DEBUG", and the
// program itself is "program".
//
// Nothing is executed (shell/run.h): an unknown `$(command)` and variables from elsewhere stay as
// they are written, so they are no numbers. The settings have a note for each assumption of the
// reader.
struct ReadScript {
  Settings settings;
  // Files that the script writes, by name without folders.
  std::map<std::string, std::string> written;
  std::vector<std::string> missing;  // scripts that it starts, but that are not given
  bool has_start = false;            // a command starts a Python program with arguments
};
ReadScript read_script(const std::string& text, const std::string& file,
                       const ShellSources& sources);
Settings read_arguments(const std::string& text, const std::string& file);  // without sources

}  // namespace meshwright::interop
