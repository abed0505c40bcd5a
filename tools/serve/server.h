// `serve`: the page and its JSON API over HTTP.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

struct Serving {
  std::string host = "127.0.0.1";
  int port = 8080;                       // 0: any free one
  std::string program;                   // what answers: meshwright itself
  std::vector<std::string> job_options;  // that every command on a job gets
};

// Until SIGINT or SIGTERM; says its address on standard output when it listens. InputError where it
// cannot listen there.
void serve(const Serving& serving);

}  // namespace meshwright
