#include "tools/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "models/core/error.h"

namespace meshwright {

namespace {

bool takes(const Command& command, const std::string& name) {
  std::istringstream words(command.options);
  for (std::string word; words >> word;)
    if (word == name) return true;
  return false;
}

void add_options(CLI::App& app, const Command& command, Options& o) {
  app.add_option("operand", o.operands, command.operand);
  if (takes(command, "json"))
    app.add_flag("--json", o.json, "one JSON object on standard output, nothing else");
  if (takes(command, "set"))
    app.add_option("--set", o.set,
                   "KEY=VALUE: override a key of the job by its dotted path; repeatable")
        ->allow_extra_args(false);
  if (takes(command, "profile"))
    app.add_option("--profile", o.profile, "FILE: the profile of machine `local`");
  if (takes(command, "trace"))
    app.add_option("--trace", o.trace,
                   "FILE: write the timeline as a Chrome trace (Perfetto opens it)");
  if (takes(command, "write"))
    app.add_option("--write", o.write,
                   "FILE: write the job with every \"auto\" replaced by the best plan");
  if (takes(command, "steps"))
    app.add_option("--steps", o.steps, "N: optimizer steps, instead of training.steps")
        ->check(CLI::PositiveNumber);
  if (takes(command, "top"))
    app.add_option("--top", o.top, "N: how many plans to show")->check(CLI::PositiveNumber);
  if (takes(command, "log-json"))
    app.add_option("--log-json", o.log_json, "FILE: one JSON line per step");
  if (takes(command, "hostfile"))
    app.add_option("--hostfile", o.hostfile, "FILE: hosts for mpirun");
  if (takes(command, "ranks"))
    app.add_option("--ranks", o.ranks, "N: processes that are measured together")
        ->check(CLI::Range(1, 64));
  if (takes(command, "as-rank")) app.add_flag("--as-rank", o.as_rank)->group("");
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = option_names(app);
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest(name, known);
    return "unknown option '" + name + "'" +
           (near.empty() ? "; known: " + list_of(known, "and") : "; did you mean '" + near + "'?");
  }
  return "";
}

}  // namespace

bool parse_options(const Command& command, const std::vector<std::string>& arguments,
                   Options& options) {
  CLI::App app(command.summary, std::string("meshwright ") + command.name);
  add_options(app, command, options);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return false;
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_option(app, arguments);
    throw InputError(std::string(command.name) + ": " + (unknown.empty() ? error.what() : unknown));
  }
  return true;
}

}  // namespace meshwright
