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

// Returns {"error": {"status": ..., "message": ...}}.
Answer error_answer(int status, const std::string& message);

struct Question {
  std::vector<std::string> words;  // the program's path first
  JobFiles files;
  bool in_file = false;  // the answer is the file that the command writes
  std::chrono::seconds limit = to_search;
};

// Runs the command in a folder of its own, which holds its files, until it ends, the client
// disconnects or `stopping` is readable. During the run, `watch` gets JSON objects: {"progress":
// ...}, {"warning": ...}.
Answer answer_to(const Question& question, int client, int stopping,
                 const std::function<void(const std::string& line)>& watch);

}  // namespace meshwright
