// What a command answers, as HTTP has it.
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

// {"error": {"status": ..., "message": ...}}
Answer error_answer(int status, const std::string& message);

struct Question {
  std::vector<std::string> words;  // the program's path first
  JobFiles files;
  bool in_file = false;  // the answer is the file that the command writes
  std::chrono::seconds limit = to_search;
};

// Runs the command among its files, in a folder of its own, until the client goes away or
// `stopping` is readable. `watch` gets what it says meanwhile, a JSON object each: {"progress":
// ...}, {"warning": ...}.
Answer answer_to(const Question& question, int client, int stopping,
                 const std::function<void(const std::string& line)>& watch);

}  // namespace meshwright
