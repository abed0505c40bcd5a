// Runs a call of a command, and returns its answer as an HTTP response.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tools/call.h"
#include "tools/serve/commands.h"
#include "tools/serve/limits.h"

namespace meshwright::tools {

struct Answer {
  int status = 200;
  std::string text;
};

// Returns the response {"error": {"status": ..., "message": ...}}.
Answer error_answer(int status, const std::string& message);

struct Question {
  Call call;
  bool in_file = false;  // the response is `answer_file`, which the command writes
  std::chrono::seconds limit = to_search;
};

// Runs the call with the program at `program` in a temporary folder, until it ends, its time is
// over, it prints too much, the client at the socket `client` disconnects (-1: there is no socket),
// or `stopping` is readable. Returns its output, or an error. During the run, `watch` gets JSON
// objects, a line each: {"progress": ...}, {"warning": ...}.
Answer answer_to(const Question& question, const std::string& program, int client, int stopping,
                 const std::function<void(const std::string& line)>& watch);

}  // namespace meshwright::tools
