#include "tools/commands/script_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "exec/launch/exit_codes.h"
#include "models/core/error.h"

namespace meshwright::tools {

std::vector<std::string> behind_front(std::vector<std::string> command,
                                      const std::vector<std::string>& front) {
  const char* const named = std::getenv("MESHWRIGHT_PYTHON");
  const std::string python = named == nullptr ? "" : named;
  if (!command.empty() && (command.front().ends_with(".py") || command.front() == "-m"))
    command.insert(command.begin(), python.empty() ? "python3" : python);
  else if (!command.empty() && !python.empty() &&
           (command.front() == "python" || command.front() == "python3"))
    command.front() = python;
  if (command.empty() ||
      !std::filesystem::path(command.front()).filename().string().starts_with("python"))
    return {};
  auto script = command.begin() + 1;
  while (script != command.end() && script->starts_with('-') && *script != "-m" && *script != "-c")
    script += (*script == "-W" || *script == "-X") && command.end() - script > 1 ? 2 : 1;
  if (script == command.end() || *script == "-c") return {};
  command.insert(script, front.begin(), front.end());
  return command;
}

int run_child(std::vector<std::string> command, int not_started,
              const std::function<void()>& prepare) {
  std::fflush(nullptr);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw RunError("no process can be started");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prepare();
    execvp(arguments[0], arguments.data());
    _exit(not_started);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : exec::run_failed;
}

}  // namespace meshwright::tools
