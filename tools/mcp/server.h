// Serves the Model Context Protocol over standard input and output, for the command `mcp`.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace meshwright::tools::mcp {

struct Serving {
  std::string program;  // path of this program, which runs the calls
  std::map<std::string, std::vector<std::string>> job_options;  // added to every command on a job
  std::string models;                   // folder whose model files jobs may name; "": none
  std::chrono::seconds to_answer{600};  // longest time of one call
};

constexpr std::size_t most_line_bytes = std::size_t{1} << 20;

// Answers requests until the input ends or SIGINT or SIGTERM comes, and returns the exit code: 0 or
// 5. Calls that still run are ended without results.
int serve(const Serving& serving);

}  // namespace meshwright::tools::mcp
