// Lists the commands that clients may run, a row each. The response is what the command prints with
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
  // The keys of the body that hold its jobs. If the key is empty, the body is the job.
  std::vector<std::string_view> jobs = {""};
  std::string_view file_option = {};  // option for the response's file; empty: stdout
  std::string_view type = "application/json";
  std::vector<std::string_view> counts = {};  // options whose values the query may give
  std::vector<std::string_view> words = {};   // options whose names the query must give
};
std::span<const ServedCommand> served_commands();
const ServedCommand* served_command(std::string_view path);

// Job files: the content by the file's name.
using JobFiles = std::map<std::string, std::string>;

// Returns the job files of a request's body. Throws InputError if the body is not JSON, lacks a
// job, or has a job that names a file.
JobFiles job_files(const ServedCommand& command, const std::string& body);

// Returns the words of the command, after the program's path. `query` gives values of options. With
// `watched`, the command reports its progress. If the response is a file, the file is called
// `answer_file`. Throws InputError if the query has an unknown option, if a value is not a count or
// a name, or if a required name is missing.
inline constexpr const char* answer_file = "answer";
std::vector<std::string> command_words(const ServedCommand& command, const JobFiles& jobs,
                                       bool watched,
                                       const std::multimap<std::string, std::string>& query);

// Returns the words of a command, after the program's path: list --json for "/api/list", list
// models --json for "/api/list/models". Returns nothing for a path that is not below "/api/list".
std::optional<std::vector<std::string>> list_words(std::string_view path);

}  // namespace meshwright
