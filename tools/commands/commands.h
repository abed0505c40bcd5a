// Declares all commands. The code of each command, and a row that describes how it is called, are
// in a file of this folder. interop.cpp and convert.cpp have two commands each.
#pragma once

#include "exec/launch/exit_codes.h"
#include "tools/options.h"

namespace meshwright::tools {

inline constexpr const char* job_help = "the job file (JSON)";

extern const Command plan_command, simulate_command, train_command, launch_command, scale_command,
    validate_command, calibrate_command, fit_command, compile_command, tokenize_command,
    import_command, export_command, capture_command, import_weights_command, export_weights_command,
    evaluate_command, generate_command, list_command, explain_command, advise_command,
    sensitivity_command, share_command, rehearse_command, serve_command, mcp_command,
    schema_command, completion_command, manual_command;
// Has all commands, in the order of the help.
inline constexpr const Command* all_commands[] = {
    &plan_command,     &simulate_command,       &train_command,          &launch_command,
    &scale_command,    &advise_command,         &sensitivity_command,    &explain_command,
    &share_command,    &validate_command,       &calibrate_command,      &fit_command,
    &compile_command,  &import_command,         &export_command,         &capture_command,
    &tokenize_command, &import_weights_command, &export_weights_command, &evaluate_command,
    &generate_command, &rehearse_command,       &list_command,           &serve_command,
    &mcp_command,      &schema_command,         &completion_command,     &manual_command};

struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};
inline constexpr ExitCodeMeaning exit_code_meanings[] = {
    {done, "done"},
    {our_fault, "our fault"},
    {bad_input, "bad input"},
    {no_plan_fits, "no plan fits"},
    {run_failed, "the run failed"},
    {stopped, "stopped on request"},
};

// Describes a variable of the environment, for the manual page and docs/commands.md. It is read in
// options_from_environment(), or where it acts. Not all variables that are read are listed.
struct Variable {
  const char* name;
  const char* meaning;
};
inline constexpr Variable variables_read[] = {
    {"XDG_DATA_HOME",
     "where meshwright/local.json lies, the profile of machine `local` (~/.local/share)"},
    {"XDG_CACHE_HOME",
     "where meshwright/ keeps compiled kernels, and today's quick profile of this computer "
     "(~/.cache)"},
    {"OMP_NUM_THREADS", "threads of each rank"},
    {"MESHWRIGHT_MACHINES", "a folder of machine profiles, in place of those in the program"},
    {"MESHWRIGHT_PYTHON",
     "the Python that `capture` starts, and `launch` and `rehearse` for a script that is named "
     "without one or with `python` alone"},
    {"SOURCE_DATE_EPOCH", "seconds since 1970 taken as the current time, for the age of prices"},
};

// Returns the names that `list WHAT` lists. If `what` is empty, returns all values that WHAT may
// have. Returns nothing if `what` is no such value.
std::vector<std::string> names_listed(const std::string& what);

// Convert weights. `import` and `export` still call these functions if they are asked for weights,
// because they converted weights before they read settings.
int run_import_weights(const Options& options);
int run_export_weights(const Options& options);

}  // namespace meshwright::tools
