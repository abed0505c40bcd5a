// Runs a command and returns its output as an HTTP response.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/commands.h"
#include "tools/serve/limits.h"

namespace meshwright {

struct Answer {
  int status = 200;
  std::string text;
};

// Returns the response {"error": {"status": ..., "message": ...}}.
Answer error_answer(int status, const std::string& message);

struct Question {
  std::vector<std::string> words;  // the program's path first
  JobFiles files;
  bool in_file = false;  // the response is the file that the command writes
  std::chrono::seconds limit = to_search;
};

// Runs the command in a temporary folder, which holds its job files, until it ends, the client at
// the socket `client` disconnects (-1: there is no socket), or `stopping` is readable. Returns its
// output, or an error. During the run, `watch` gets JSON objects, a line each: {"progress": ...},
// {"warning": ...}.
Answer answer_to(const Question& question, int client, int stopping,
                 const std::function<void(const std::string& line)>& watch);

}  // namespace meshwright
