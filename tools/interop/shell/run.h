// Walks a shell script as a shell would, without executing anything: variables are set, conditions
// that the script decides choose a branch, and the commands that would be started are listed.
//
// A variable that is not given is empty in a condition. If only the machine can decide a condition
// (`[ -d /data ]`), its branches are performed one after the other. Commands and variables that
// depend on such a choice carry a doubt, a line that says what was assumed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/interop/shell/starters.h"
#include "tools/interop/shell/variables.h"

namespace meshwright::interop {

// A command that a script starts. If another command starts it (`srun bash -c "python x.py"`), the
// words of the outer command come first.
struct ShellCommand {
  std::vector<ShellWord> words;
  ShellDoubts doubts;
  bool is_repeated = false;  // is in a loop, after the loop's first round
};

struct ShellExport {
  std::string name, value;
  int line = 0, file = 0;
};

struct ShellSources {
  std::map<std::string, std::string> defines;  // --define NAME=VALUE; "1": the first argument
  // Returns the text of a file that lies beside the script, or nothing. May be empty.
  std::function<std::optional<std::string>(const std::string& path)> beside;
};

struct ShellOutcome {
  std::vector<ShellCommand> commands;
  std::vector<ShellExport> exports;
  std::vector<StarterSetting> queue;           // options in #SBATCH and similar comments
  std::map<std::string, std::string> written;  // by path: files that cat, tee and sed write
  std::vector<std::string> missing;            // scripts that are named, but were not found
  // All scripts that were read; ShellWord::file is an index.
  std::vector<std::string> files;
};

// Walks the script `text` of `file`. With `performs_all`, branches are performed even if a variable
// that is not given decides against them. Throws InputError if the script cannot be parsed or a
// variable gets too long.
ShellOutcome walk_shell(const std::string& text, const std::string& file,
                        const ShellSources& sources, bool performs_all = false);

// The status of a command or the value of a condition: nothing if only the machine knows it.
// `doubts` say what it depends on.
struct ShellStatus {
  std::optional<bool> value = true;
  ShellDoubts doubts;
};
// Returns the value of `[ ... ]`, `[[ ... ]]`, `test ...` or `(( ... ))`.
ShellStatus tested(const std::vector<ShellText>& words, ShellVariables& variables);

}  // namespace meshwright::interop
