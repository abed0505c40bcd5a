// Describes a call of a command by another program, without a command line: from Python, or by a
// process of `serve` and `mcp`. A call names options as the command line does, and gives jobs as
// texts. answer_of() in command_line.h runs it.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace meshwright::tools {

struct Call {
  std::string command;                // "plan"
  std::vector<std::string> operands;  // as on the command line
  // Has the contents of operands that are texts instead of files, by the operand's name.
  std::map<std::string, std::string> jobs;
  // Has the values of options, by name: {"top", {"3"}}. A flag has none.
  std::map<std::string, std::vector<std::string>> options;

  bool operator==(const Call&) const = default;
};

// Write and read a call as JSON: {command, operands, jobs, options}. read_call() throws InputError
// if `text` is not such an object.
nlohmann::json to_json(const Call& call);
Call read_call(const std::string& text);

}  // namespace meshwright::tools
