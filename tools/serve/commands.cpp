#include "tools/serve/commands.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "tools/serve/job_files.h"

namespace meshwright::tools {

namespace {

bool is_name(std::string_view word) {
  return !word.empty() && word.front() != '-' && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

bool has(const std::vector<std::string_view>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::span<const ServedCommand> served_commands() {
  static const std::vector<ServedCommand> rows = {
      {.path = "/api/plan", .command = "plan", .counts = {"top"}},
      {.path = "/api/simulate", .command = "simulate", .counts = {"steps"}},
      {.path = "/api/advise", .command = "advise"},
      {.path = "/api/sensitivity", .command = "sensitivity"},
      {.path = "/api/explain", .command = "explain", .jobs = {"a", "b"}},
      {.path = "/api/export", .command = "export", .words = {"for"}},
      {.path = "/api/timeline", .command = "simulate", .file_option = "timeline"},
      {.path = "/api/trace", .command = "simulate", .file_option = "trace"},
      {.path = "/api/report",
       .command = "simulate",
       .file_option = "report",
       .type = "text/html; charset=utf-8"}};
  return rows;
}

const ServedCommand* served_command(std::string_view path) {
  for (const ServedCommand& row : served_commands())
    if (row.path == path) return &row;
  return nullptr;
}

namespace {

// Adds the jobs of the body, as operands in the order of their keys. Throws InputError if the body
// is not JSON, or if a job is missing or names a file.
void add_jobs(const ServedCommand& command, const std::string& body, const std::string& models,
              Call& call) {
  const bool is_whole = command.jobs.front().empty();
  const json value = parse_json(body, is_whole ? "job.json" : "body");
  for (const std::string_view key : command.jobs) {
    if (!is_whole && (!value.is_object() || !value.contains(key)))
      throw InputError("body: /" + std::string(key) + ": is missing; it is a job");
    const std::string name = (is_whole ? "job" : std::string(key)) + ".json";
    const json& given = is_whole ? value : value[key];
    const json job = with_model_of(given, models);
    check_names_no_file(job, name);
    call.operands.push_back(name);
    call.jobs[name] = is_whole && job == given ? body : job.dump();
  }
}

}  // namespace

Call call_of(const ServedCommand& command, const std::string& body,
             const std::multimap<std::string, std::string>& query, const std::string& models) {
  Call call;
  call.command = command.command;
  add_jobs(command, body, models, call);
  if (!command.file_option.empty()) call.options[std::string(command.file_option)] = {answer_file};
  for (const std::string_view name : command.words)
    if (!query.contains(std::string(name)))
      throw InputError("query: " + std::string(name) + ": is missing; ?" + std::string(name) +
                       "=NAME");
  for (const auto& [name, value] : query) {
    const bool is_word = has(command.words, name);
    if (!is_word && !has(command.counts, name))
      throw InputError("query: '" + name + "' is not known here");
    if (is_word && !is_name(value))
      throw InputError("query: " + name + ": '" + value + "' is no name");
    if (!is_word && (value.empty() || value.find_first_not_of("0123456789") != std::string::npos))
      throw InputError("query: " + name + ": '" + value + "' is no count");
    call.options[name].push_back(value);
  }
  return call;
}

std::optional<Call> list_call(std::string_view path) {
  constexpr std::string_view list = "/api/list";
  if (!path.starts_with(list)) return std::nullopt;
  Call call{.command = "list", .operands = {}, .jobs = {}, .options = {}};
  path.remove_prefix(list.size());
  while (!path.empty()) {
    if (path.front() != '/') return std::nullopt;
    path.remove_prefix(1);
    const std::string word(path.substr(0, path.find('/')));
    if (!is_name(word)) return std::nullopt;
    call.operands.push_back(word);
    path.remove_prefix(word.size());
  }
  return call;
}

}  // namespace meshwright::tools
