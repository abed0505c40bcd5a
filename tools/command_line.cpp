#include "tools/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "models/core/error.h"
#include "tools/answering.h"
#include "tools/commands/commands.h"
#include "tools/session/choose.h"
#include "tools/session/screen.h"
#include "tools/version.h"

namespace meshwright::tools {

namespace {

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command* command : all_commands) names.emplace_back(command->name);
  return names;
}

void print_usage(std::FILE* to) {
  std::string text = "usage: meshwright COMMAND JOB [options]\n\ncommands:\n";
  for (const Command* command : all_commands)
    text += labelled(fmt::format("  {:<16}{:<7}", command->name, command->operand),
                     command->summary, usual_columns) +
            "\n";
  text += "\n`meshwright COMMAND --help` lists a command's options.\nexit codes:";
  const char* comma = "";
  for (const ExitCodeMeaning& code : exit_code_meanings) {
    text += fmt::format("{} {} {}", comma, code.code, code.meaning);
    comma = ",";
  }
  std::fputs(broken_lines(text + "\n", usual_columns).c_str(), to);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<int> whole_number(const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1 || value > 1'000'000) return std::nullopt;
  return static_cast<int>(value);
}

// Returns the current date in days since 1970-01-01. If `epoch` is a whole number of at least 0, it
// replaces the clock, in seconds since 1970-01-01
// (https://reproducible-builds.org/specs/source-date-epoch).
int today(const std::string& epoch) {
  constexpr long long day = 24 * 60 * 60;
  char* end = nullptr;
  const long long given = std::strtoll(epoch.c_str(), &end, 10);
  constexpr long long latest = day * 10'000'000;  // far beyond every date that is shown
  const bool is_given = !epoch.empty() && *end == '\0' && given >= 0 && given < latest;
  return static_cast<int>((is_given ? given : static_cast<long long>(std::time(nullptr))) / day);
}

}  // namespace

Options options_from_environment() {
  Options options;
  std::string data = environment("XDG_DATA_HOME");
  if (data.empty()) data = environment("HOME") + "/.local/share";
  options.local_profile = data + "/meshwright/local.json";
  options.threads = whole_number(environment("OMP_NUM_THREADS"));
  options.mpi_ranks = whole_number(environment("OMPI_COMM_WORLD_SIZE"));
  options.sagemaker = {environment("SM_HOSTS"),
                       environment("SM_CURRENT_HOST"),
                       environment("SM_NUM_GPUS"),
                       environment("SM_NETWORK_INTERFACE_NAME"),
                       environment("SM_CURRENT_INSTANCE_TYPE"),
                       environment("SM_HP_MP_PARAMETERS"),
                       environment("SM_FRAMEWORK_PARAMS")};
  options.today = today(environment("SOURCE_DATE_EPOCH"));
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length > 0) options.program.assign(path, length);
  return options;
}

namespace {

// Returns the command called `name`. Throws InputError if there is no such command.
const Command& command_called(const std::string& name) {
  for (const Command* command : all_commands)
    if (name == command->name) return *command;
  const std::string near = nearest(name, command_names());
  throw InputError("unknown command '" + name + "'; " +
                   (near.empty() ? "known: " + list_of(command_names(), "and")
                                 : "did you mean '" + near + "'?"));
}

Options options_for(const Command& command) {
  Options options = options_from_environment();
  options.command = command.name;
  return options;
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_usage(stderr);
    return bad_input;
  }
  if (arguments[0] == "help" && arguments.size() > 1)
    return run_command_line({arguments[1], "--help"});
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_usage(stdout);
    return done;
  }
  if (arguments[0] == "--version") {
    std::fputs(version_text().data(), stdout);
    return done;
  }
  if (arguments[0] == answering_word) return run_answering();
  const Command& command = command_called(arguments[0]);
  Options options = options_for(command);
  if (!parse_options(command, {arguments.begin() + 1, arguments.end()}, options)) return done;
  if (!options.profile.empty()) options.local_profile = options.profile;
  if (options.wide) set_screen_columns(without_end);
  return command.run(options);
}

std::string answer_of(const Call& call, const Watch& watch) {
  const Command& command = command_called(call.command);
  if (command.answer == nullptr) throw InputError(call.command + ": cannot be called, only run");
  Options options = options_for(command);
  options.operands = call.operands;
  options.jobs = call.jobs;
  options.json = true;
  for (const auto& [name, values] : call.options) set_option(command, name, values, options);
  if (!options.profile.empty()) options.local_profile = options.profile;
  return command.answer(options, watch);
}

}  // namespace meshwright::tools
