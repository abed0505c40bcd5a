// Runs the command `mcp`, which serves plan, simulate, advise and other commands as tools of a
// language model (Model Context Protocol).
#include "tools/mcp/server.h"

#include <filesystem>

#include "models/core/error.h"
#include "tools/commands/commands.h"
#include "tools/serve/job_files.h"

namespace meshwright::tools {

namespace {

void add_file(const char* option, const std::string& path, mcp::Serving& serving) {
  if (path.empty()) return;
  if (!std::filesystem::exists(path)) throw InputError(path + ": no such file");
  serving.job_options[option] = {std::filesystem::absolute(path).string()};
}

int run_mcp(const Options& options) {
  check_models_folder(options.models);
  mcp::Serving serving{options.program, {}, options.models};
  serving.to_answer = std::chrono::seconds(options.time_limit.value_or(600));
  add_file("profile", options.profile, serving);
  add_file("prices", options.prices, serving);
  return mcp::serve(serving);
}

}  // namespace

const Command mcp_command = {"mcp",
                             "",
                             "",
                             "plan, simulate, advise, ... as tools of language models",
                             "profile prices models time-limit",
                             run_mcp};

}  // namespace meshwright::tools
