// Runs the command `completion SHELL`, which prints the script that a shell reads to complete this
// program's command lines. The script calls `completion words -- WORDS`, which prints one line for
// each word that may come next, and `:files` if file names may come next.
#include "tools/commands/completion_words.h"

#include <algorithm>
#include <cstdio>

#include "models/core/error.h"
#include "models/core/names_in.h"
#include "tools/commands/commands.h"

namespace meshwright::tools {

namespace {

// Has the script for bash. Bash splits words at `=`, so the script reads whole words from the line
// and removes from each completion the part before the piece that is being typed.
constexpr const char* bash_script = R"script(_meshwright() {
  local line=${COMP_LINE:0:COMP_POINT} word piece=${COMP_WORDS[COMP_CWORD]} words
  read -ra words <<<"$line"
  [[ $line != *[[:space:]] ]] || words+=("")
  [[ $piece != = ]] || piece=
  local before=${words[-1]%"$piece"}
  COMPREPLY=()
  while IFS= read -r word; do
    if [[ $word == :files ]]; then
      compopt -o default
    else
      [[ $word != *= ]] || compopt -o nospace
      COMPREPLY+=("${word#"$before"}")
    fi
  done < <("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null)
}
complete -F _meshwright meshwright
)script";

constexpr const char* zsh_script = R"script(#compdef meshwright
_meshwright() {
  local word
  local -a found
  found=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for word in $found; do
    if [[ $word == ":files" ]]; then
      _files
    elif [[ $word == *"=" ]]; then
      compadd -S "" -- "$word"
    else
      compadd -- "$word"
    fi
  done
}
compdef _meshwright meshwright
[[ ${funcstack[1]} != _meshwright ]] || _meshwright "$@"
)script";

constexpr const char* fish_script = R"script(function __meshwright_words
  set -l typed (commandline -opc) (commandline -ct)
  for word in ($typed[1] completion words -- $typed[2..-1] 2>/dev/null)
    if test $word = :files
      __fish_complete_path (commandline -ct)
    else
      echo $word
    end
  end
end
complete -c meshwright -f -a '(__meshwright_words)'
)script";

struct Shell {
  const char* name;
  const char* script;
};
constexpr Shell shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

int run_completion(const Options& options) {
  const std::string shell = options.operands.empty() ? "" : options.operands[0];
  if (shell == "words") {
    const Completion found = completion_of({options.operands.begin() + 1, options.operands.end()});
    for (const std::string& word : found.words) std::printf("%s\n", word.c_str());
    if (found.files) std::printf(":files\n");
    return done;
  }
  const auto row = std::ranges::find(shells, shell, [](const Shell& each) { return each.name; });
  if (row == std::end(shells) || options.operands.size() > 1)
    throw InputError("completion: say of which shell: " + list_of(names_in(shells)));
  std::fputs(row->script, stdout);
  return done;
}

}  // namespace

const Command completion_command = {
    "completion",
    "SHELL",
    "bash, zsh or fish",
    "what a shell reads to complete these commands",
    "",
    run_completion,
    "Completes commands, options, keys of --set and their words. In bash: `source <(meshwright "
    "completion bash)`. In zsh the same with zsh. For fish: `meshwright completion fish > "
    "~/.config/fish/completions/meshwright.fish`.",
    nullptr,
    [] { return names_in(shells); }};

}  // namespace meshwright::tools
