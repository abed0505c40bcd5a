// Tests that a call of a tool becomes the call of a command, with jobs as texts, or a refusal that
// names the argument.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"
#include "tools/mcp/messages.h"
#include "tools/mcp/tools.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

const json job = {{"model", "gpt2"}};

// Returns the message of the refusal, or "" if there was none.
std::string refused(const std::string& tool, const json& arguments) {
  try {
    mcp::question_of(tool, arguments);
  } catch (const mcp::Refusal& refusal) {
    return refusal.what();
  }
  return "";
}

Call call_of(const std::string& tool, const json& arguments) {
  return mcp::question_of(tool, arguments).call;
}

}  // namespace

TEST_CASE("mcp: a tool's arguments become the call of its command", "[tools][mcp]") {
  const std::map<std::string, std::string> the_job = {{"job.json", job.dump()}};
  CHECK(call_of("plan", {{"job", job}}) == Call{"plan", {"job.json"}, the_job, {}});
  CHECK(call_of("plan", {{"job", job}, {"top", 3}}) ==
        Call{"plan", {"job.json"}, the_job, {{"top", {"3"}}}});
  CHECK(call_of("simulate", {{"job", job}, {"steps", 7}}) ==
        Call{"simulate", {"job.json"}, the_job, {{"steps", {"7"}}}});
  CHECK(call_of("advise", {{"job", job}}) == Call{"advise", {"job.json"}, the_job, {}});
  CHECK(call_of("list", json::object()) == Call{"list", {}, {}, {}});
  CHECK(call_of("list", {{"what", "machines"}}) == Call{"list", {"machines"}, {}, {}});
  CHECK(call_of("list", {{"what", "machines"}, {"name", "p4d.24xlarge"}}) ==
        Call{"list", {"machines", "p4d.24xlarge"}, {}, {}});
  CHECK(call_of("schema", json::object()) == Call{"schema", {}, {}, {}});
}

TEST_CASE("mcp: a job may name a model of the folder in --models, and no other file",
          "[tools][mcp]") {
  const TestFolder folder;
  const json model = {{"captured", 1}};
  folder.file("own.model.json", model.dump());
  const auto asked = [&](const std::string& name, const std::string& models) {
    return mcp::question_of("plan", {{"job", {{"model", name}}}}, models).call.jobs.at("job.json");
  };
  CHECK(json::parse(asked("own.model.json", folder.path())) == json{{"model", model}});
  for (const std::string& name :
       {std::string("other.json"), std::string("../own.model.json"), folder.file("own.model.json")})
    CHECK(message_of([&] { asked(name, folder.path()); }).find("/model: '" + name) !=
          std::string::npos);
  CHECK(message_of([&] { asked("own.model.json", ""); }).find("start the server with --models") !=
        std::string::npos);
}

TEST_CASE("mcp: jobs are texts of the call, each under its argument's name", "[tools][mcp]") {
  const json other = {{"model", "gpt2-xl"}};
  const Question question = mcp::question_of("explain", {{"a", job}, {"b", other}});
  CHECK(question.call == Call{"explain",
                              {"a.json", "b.json"},
                              {{"a.json", job.dump()}, {"b.json", other.dump()}},
                              {}});
  CHECK_FALSE(question.in_file);
}

TEST_CASE("mcp: what a tool does not take is refused by the argument's name", "[tools][mcp]") {
  for (const json& top : {json(1), json(1'000'000)})
    CHECK(refused("plan", {{"job", job}, {"top", top}}).empty());
  for (const json& top : {json(0), json(1'000'001), json(-1), json(1.5), json("1"), json(true)}) {
    CAPTURE(top.dump());
    CHECK(refused("plan", {{"job", job}, {"top", top}}) ==
          "top: expected a whole number from 1 to 1000000");
  }
  for (const json& wrong : {json("x"), json(1), json::array({job}), json()})
    CHECK(refused("plan", {{"job", wrong}}) == "job: expected an object, the job");
  CHECK(refused("plan", json::object()) == "job: is missing");
  CHECK(refused("explain", {{"a", job}}) == "b: is missing");
  CHECK(refused("plan", json::array()) == "'arguments' must be an object");
  CHECK(refused("plan", {{"job", job}, {"steps", 1}}) == "'steps' is not an argument of plan");
  CHECK(refused("list", {{"name", "x"}}) == "name: goes with 'what'");
  CHECK(refused("train", {{"job", job}}) ==
        "unknown tool 'train'; known: plan, simulate, advise, explain, list and schema");
  for (const char* word : {"machines", "a-b_c.D9", "."})
    CHECK(refused("list", {{"what", word}}).empty());
  for (const json& word : {json(""), json("-a"), json("a b"), json("a/b"), json("a:"), json("a@"),
                           json("a["), json("a`"), json("a{"), json(1)}) {
    CAPTURE(word.dump());
    CHECK(refused("list", {{"what", word}}) ==
          "what: expected a name of letters, digits, '-', '_' and '.'");
  }
}

TEST_CASE("mcp: an answer is text, and an object beside it where it is one", "[tools][mcp]") {
  CHECK(mcp::result_of({200, R"({"a": 1})"}) ==
        json({{"isError", false},
              {"content", {{{"type", "text"}, {"text", R"({"a": 1})"}}}},
              {"structuredContent", {{"a", 1}}}}));
  CHECK(mcp::result_of({200, "no JSON"}) ==
        json({{"isError", false}, {"content", {{{"type", "text"}, {"text", "no JSON"}}}}}));
  CHECK(mcp::result_of({400, R"({"error": {"message": "m"}})"}) ==
        json({{"isError", true}, {"content", {{{"type", "text"}, {"text", "m"}}}}}));
  CHECK(mcp::result_of({422, R"({"error": {"message": "m", "answer": {"b": 2}}})"}) ==
        json({{"isError", true},
              {"content", {{{"type", "text"}, {"text", "m"}}}},
              {"structuredContent", {{"b", 2}}}}));
}

TEST_CASE("mcp: the list of tools says what each takes and needs", "[tools][mcp]") {
  std::map<std::string, std::pair<Words, Words>> tools;  // arguments, and those that are needed
  for (const json& tool : mcp::tool_list()) {
    auto& [arguments, needed] = tools[tool["name"]];
    const json& schema = tool["inputSchema"];
    for (const auto& [name, unused] : schema["properties"].items()) arguments.push_back(name);
    if (schema.contains("required")) needed = schema["required"].get<Words>();
    CHECK(schema["additionalProperties"] == false);
    CHECK(tool["annotations"] == json({{"readOnlyHint", true}, {"openWorldHint", false}}));
  }
  CHECK(tools == decltype(tools){{"plan", {{"job", "top"}, {"job"}}},
                                 {"simulate", {{"job", "steps"}, {"job"}}},
                                 {"advise", {{"job"}, {"job"}}},
                                 {"explain", {{"a", "b"}, {"a", "b"}}},
                                 {"list", {{"name", "what"}, {}}},
                                 {"schema", {{}, {}}}});
  for (const json& tool : mcp::tool_list()) {
    if (tool["name"] != "plan") continue;
    const json& properties = tool["inputSchema"]["properties"];
    CHECK(properties["top"]["type"] == "integer");
    CHECK(properties["top"]["minimum"] == 1);
    CHECK(properties["top"]["maximum"] == 1'000'000);
    CHECK(properties["job"]["type"] == "object");
  }
}
