// Serves the page and its JSON API over HTTP, for the command `serve`.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace meshwright::tools {

struct Serving {
  std::string host = "127.0.0.1";
  int port = 8080;      // 0: any free one
  std::string program;  // path of this program, which runs the commands
  std::map<std::string, std::vector<std::string>> job_options;  // added to every command on a job
  std::string models;  // folder whose model files jobs may name; "": none
};

// Serves until SIGINT or SIGTERM. Prints its address on standard output once it listens. Throws
// InputError if it cannot listen there, and RunError if listening fails later.
void serve(const Serving& serving);

}  // namespace meshwright::tools
