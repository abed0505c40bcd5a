// `mcp`: the Model Context Protocol over standard input and output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace meshwright::mcp {

struct Serving {
  std::string program;                   // what answers: meshwright itself
  std::vector<std::string> job_options;  // that every command on a job gets
  std::chrono::seconds to_answer{600};   // of one call
};

constexpr std::size_t most_line_bytes = std::size_t{1} << 20;

// Until the input ends: 0. Until SIGINT or SIGTERM: 5. Calls that still run are ended.
int serve(const Serving& serving);

}  // namespace meshwright::mcp
