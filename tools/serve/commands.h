// Lists the commands that clients may run, a row each. The response is what the command prints with
// --json, or the file that it writes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/call.h"

namespace meshwright::tools {

struct ServedCommand {
  std::string_view path;     // "/api/plan"
  std::string_view command;  // "plan"
  // Names the keys of the body that hold its jobs. If the key is empty, the body is the job.
  std::vector<std::string_view> jobs = {""};
  std::string_view file_option = {};  // "trace": the response is the file that it writes
  std::string_view type = "application/json";
  std::vector<std::string_view> counts = {};  // options whose values the query may give
  std::vector<std::string_view> words = {};   // options that the query must give, as names
};
std::span<const ServedCommand> served_commands();
const ServedCommand* served_command(std::string_view path);

// Names the file that a command writes if the response is a file.
inline constexpr const char* answer_file = "answer";

// Returns the call of the command. `body` is that of the request, `query` gives values of options,
// and `models` is the folder whose model files jobs may name ("": none).
// Throws InputError if the body is not JSON, lacks a job, or has a job that names a file, if the
// query has an unknown option, if a value is not a count or a name, or if a required name is
// missing.
Call call_of(const ServedCommand& command, const std::string& body,
             const std::multimap<std::string, std::string>& query, const std::string& models);

// Returns the call of `list` for paths such as "/api/list" and "/api/list/models". Returns nothing
// for a path that is not below "/api/list" or whose parts are no names.
std::optional<Call> list_call(std::string_view path);

}  // namespace meshwright::tools
