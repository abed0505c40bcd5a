#include "tools/mcp/tools.h"

#include <algorithm>
#include <vector>

#include "models/core/error.h"
#include "models/core/names_in.h"
#include "tools/mcp/messages.h"
#include "tools/serve/job_files.h"

namespace meshwright::tools::mcp {

namespace {

struct Argument {
  enum class Kind : std::uint8_t { job, count, word };
  const char* name;
  Kind kind;
  const char* description;
  bool required = false;
};

struct Tool {
  const char* name;  // name of the tool, and of its command
  const char* title;
  const char* description;
  std::vector<Argument> arguments;
};

constexpr const char* the_job =
    "the job: model, training, cluster and parallelism, as the tool `schema` describes; it names "
    "no files, except as its model a JSON file of the folder in --models";

const std::vector<Tool>& all_tools() {
  using enum Argument::Kind;
  static const std::vector<Tool> tools = {
      {"plan",
       "Search for the best plan",
       "Searches the ways to train a model on its clusters (pipeline, tensor, data, context and "
       "expert parallelism, ZeRO, recomputation) and ranks them by predicted time or cost; says "
       "why "
       "the others lose. Keys that are to be chosen have the value \"auto\".",
       {{"job", job, the_job, true}, {"top", count, "how many plans to show (10)"}}},
      {"simulate",
       "Predict a training step",
       "Predicts time, memory by class and cost of a training step, stage by stage, and of the "
       "whole "
       "run where the job says how long it is. Plans first where the job says \"auto\".",
       {{"job", job, the_job, true}, {"steps", count, "optimizer steps, for the total time"}}},
      {"advise",
       "From one GPU to many",
       "The best plan at each size of cluster, what each larger one brings, where to stop and why.",
       {{"job", job, the_job, true}}},
      {"explain",
       "Compare two steps",
       "Why a step of job b takes longer or shorter than one of job a, cause by cause.",
       {{"a", job, the_job, true}, {"b", job, "the other job", true}}},
      {"list",
       "What is known",
       "Names that a job may use: models, machines, schedules and others. Without `what`: all of "
       "them; with `name`: the profile of that machine.",
       {{"what", word, "models, machines, ..."}, {"name", word, "of a machine or framework"}}},
      {"schema", "The job file", "The JSON Schema of a job.", {}}};
  return tools;
}

const Tool& tool_named(const std::string& name) {
  const auto found = std::ranges::find(all_tools(), name, &Tool::name);
  if (found != all_tools().end()) return *found;
  throw Refusal(Code::invalid_params,
                "unknown tool '" + name + "'; known: " + list_of(names_in(all_tools()), "and"));
}

json schema_of(const Argument& argument) {
  json schema = {{"description", argument.description}};
  if (argument.kind == Argument::Kind::job) {
    schema["type"] = "object";
  } else if (argument.kind == Argument::Kind::count) {
    schema["type"] = "integer";
    schema["minimum"] = 1;
    schema["maximum"] = 1'000'000;
  } else {
    schema["type"] = "string";
    schema["pattern"] = "^[A-Za-z0-9_.][A-Za-z0-9_.-]*$";
  }
  return schema;
}

bool is_word(const std::string& text) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

void check(const Argument& argument, const json& value) {
  const auto refuse = [&](const char* wanted) {
    throw Refusal(Code::invalid_params, std::string(argument.name) + ": expected " + wanted);
  };
  if (argument.kind == Argument::Kind::job && !value.is_object()) refuse("an object, the job");
  if (argument.kind == Argument::Kind::count &&
      (!value.is_number_integer() || value < 1 || value > 1'000'000))
    refuse("a whole number from 1 to 1000000");
  if (argument.kind == Argument::Kind::word &&
      (!value.is_string() || !is_word(value.get<std::string>())))
    refuse("a name of letters, digits, '-', '_' and '.'");
}

void check_arguments(const Tool& tool, const json& arguments) {
  if (!arguments.is_object()) throw Refusal(Code::invalid_params, "'arguments' must be an object");
  std::vector<std::string> names;
  for (const Argument& argument : tool.arguments) {
    names.emplace_back(argument.name);
    if (arguments.contains(argument.name))
      check(argument, arguments[argument.name]);
    else if (argument.required)
      throw Refusal(Code::invalid_params, std::string(argument.name) + ": is missing");
  }
  for (const auto& [name, value] : arguments.items())
    if (std::ranges::find(names, name) == names.end())
      throw Refusal(Code::invalid_params, "'" + name + "' is not an argument of " + tool.name);
}

}  // namespace

json tool_list() {
  json tools = json::array();
  for (const Tool& tool : all_tools()) {
    json properties = json::object(), required = json::array();
    for (const Argument& argument : tool.arguments) {
      properties[argument.name] = schema_of(argument);
      if (argument.required) required.push_back(argument.name);
    }
    json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    if (!required.empty()) schema["required"] = required;
    tools.push_back({{"name", tool.name},
                     {"title", tool.title},
                     {"description", tool.description},
                     {"inputSchema", schema},
                     {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}});
  }
  return tools;
}

Question question_of(const std::string& name, const json& arguments, const std::string& models) {
  const Tool& tool = tool_named(name);
  check_arguments(tool, arguments);
  if (arguments.contains("name") && !arguments.contains("what"))
    throw Refusal(Code::invalid_params, "name: goes with 'what'");
  Question question;
  Call& call = question.call;
  call.command = tool.name;
  for (const Argument& argument : tool.arguments) {
    if (!arguments.contains(argument.name)) continue;
    const json& value = arguments[argument.name];
    if (argument.kind == Argument::Kind::word) {
      call.operands.push_back(value);
    } else if (argument.kind == Argument::Kind::count) {
      call.options[argument.name] = {std::to_string(value.get<std::int64_t>())};
    } else {
      const std::string file = std::string(argument.name) + ".json";
      const json job = with_model_of(value, models);
      check_names_no_file(job, file);
      call.operands.push_back(file);
      call.jobs[file] = job.dump();
    }
  }
  return question;
}

json result_of(const Answer& answer) {
  json value = json::parse(answer.text, nullptr, false);
  json result = {{"isError", answer.status != 200}};
  std::string text = answer.text;
  if (answer.status != 200 && value.is_object()) {
    text = value["error"].value("message", "");
    value = value["error"].value("answer", json());
  }
  result["content"] = json::array({{{"type", "text"}, {"text", text}}});
  if (value.is_object()) result["structuredContent"] = value;
  return result;
}

}  // namespace meshwright::tools::mcp
