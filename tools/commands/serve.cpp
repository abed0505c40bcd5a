// Runs the command `serve`, which serves a page for the browser, and a JSON API of other commands.
#include "tools/serve/server.h"

#include <filesystem>

#include "models/core/error.h"
#include "models/core/open_file.h"
#include "tools/commands/commands.h"
#include "tools/serve/job_files.h"

namespace meshwright::tools {

namespace {

void hand_on(const std::string& option, const std::string& path, Serving& serving) {
  if (path.empty()) return;
  check_readable(path);
  if (names_open_file(path))
    throw InputError("--" + option + " " + path +
                     ": every question reads it anew, so it must have a name of its own");
  serving.job_options[option] = {std::filesystem::absolute(path).string()};
}

int run_serve(const Options& options) {
  check_models_folder(options.models);
  Serving serving{options.host, options.port, options.program, {}, options.models};
  hand_on("profile", options.profile, serving);
  hand_on("prices", options.prices, serving);
  serve(serving);
  return done;
}

}  // namespace

const Command serve_command = {
    "serve",
    "",
    "",
    "a page, and a JSON API, of plan, simulate, advise, ...",
    "host port profile prices models",
    run_serve,
    "Serves a page for the browser and a JSON API of plan, simulate, advise, sensitivity and "
    "explain, at http://127.0.0.1:8080/. docs/serve.md describes both."};

}  // namespace meshwright::tools
