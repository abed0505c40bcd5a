// The commands that clients may have run: a row each. An answer is what the command prints with
// --json, or the file that it writes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct ServedCommand {
  std::string_view path;     // "/api/plan"
  std::string_view command;  // "plan"
  // The keys of the body that hold its jobs; one without a name: the body is the job.
  std::vector<std::string_view> jobs = {""};
  std::string_view file_option = {};  // names the file that is the answer; none: standard output
  std::string_view type = "application/json";
  std::vector<std::string_view> counts = {};  // options whose values the query may give
  std::vector<std::string_view> words = {};   // and those whose values it must give: names
};
std::span<const ServedCommand> served_commands();
const ServedCommand* served_command(std::string_view path);

// A job file by its name, and what it holds.
using JobFiles = std::map<std::string, std::string>;

// Of a request's body. InputError where it is no JSON, lacks a job, or a job names a file.
JobFiles job_files(const ServedCommand& command, const std::string& body);

// The words after the program's path; `query` gives an option's value. With `watched` it says how
// far it is. The answer's file is called `answer_file`. InputError: a value is no count or no name,
// or a name is missing.
inline constexpr const char* answer_file = "answer";
std::vector<std::string> command_words(const ServedCommand& command, const JobFiles& jobs,
                                       bool watched,
                                       const std::multimap<std::string, std::string>& query);

// "/api/list": list --json; "/api/list/models": list models --json. Nothing: not such a path.
std::optional<std::vector<std::string>> list_words(std::string_view path);

}  // namespace meshwright
