// Tests `mcp` with a client that follows the Model Context Protocol (2025-06-18) over standard
// input and output.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/jobs.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

const json small_job = meshwright::tests::planned_job();

class Client {
 public:
  explicit Client(const std::string& options = "") {
    int in[2], out[2];
    REQUIRE(pipe(in) == 0);
    REQUIRE(pipe(out) == 0);
    const std::string line = "exec '" MESHWRIGHT_PROGRAM "' mcp " + options;
    process_ = fork();
    if (process_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int end : {in[0], in[1], out[0], out[1]}) close(end);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Client() {
    if (process_ >= 0) end();
    close(from_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send_line(const std::string& line) {
    const std::string text = line + "\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = write(to_, text.data() + sent, text.size() - sent);
      REQUIRE(n > 0);
      sent += static_cast<std::size_t>(n);
    }
  }
  void send(const json& message) { send_line(message.dump()); }

  // Returns the next message, or null if none comes in time or the program has ended.
  json receive(int seconds = 120) {
    while (text_.find('\n') == std::string::npos) {
      pollfd fd{from_, POLLIN, 0};
      if (poll(&fd, 1, seconds * 1000) <= 0) return nullptr;
      char some[65536];
      const ssize_t n = read(from_, some, sizeof some);
      if (n <= 0) return nullptr;
      text_.append(some, static_cast<std::size_t>(n));
    }
    const std::string line = text_.substr(0, text_.find('\n'));
    text_.erase(0, line.size() + 1);
    json message = json::parse(line);
    CHECK(message["jsonrpc"] == "2.0");
    return message;
  }
  json receive_answer() {
    for (;;) {
      json message = receive();
      if (!message.contains("method")) return message;
    }
  }
  json ask(const std::string& method, const json& params, const json& id = 7) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}});
    json answer = receive_answer();
    CHECK(answer.value("id", json()) == id);
    return answer;
  }
  json call(const std::string& tool, const json& arguments) {
    return ask("tools/call", {{"name", tool}, {"arguments", arguments}});
  }
  void begin() {
    ask("initialize", {{"protocolVersion", "2025-06-18"},
                       {"capabilities", json::object()},
                       {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
    send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  }
  int code_of(const std::string& line) {
    send_line(line);
    const json answer = receive_answer();
    CAPTURE(line, answer.dump());
    REQUIRE(answer.contains("error"));
    CHECK(answer["error"]["message"].is_string());
    return answer["error"]["code"];
  }

  int end() {  // of its input; the program's exit code
    close(to_);
    return wait();
  }
  int interrupt() {
    kill(process_, SIGTERM);
    const int code = wait();
    close(to_);
    return code;
  }
  pid_t process() const { return process_; }

 private:
  int wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string text_;
};

json without_times(const json& value) {
  return json::parse(std::regex_replace(
      value.dump(), std::regex("\"(search|simulation)_wall_s\":[^,}]*"), "\"$1_wall_s\":0"));
}

std::string text_of(const json& result) { return result["content"][0]["text"]; }

}  // namespace

TEST_CASE("mcp: a session begins with an agreed version, and ends with its input", "[mcp]") {
  Client client;
  CHECK(client.ask("ping", json::object())["result"] == json::object());
  CHECK(client.ask("tools/list", json::object())["error"]["code"] == -32600);
  for (const char* asked : {"2031-01-01", "2025-06-18"}) {
    Client one;
    const json answer = one.ask("initialize",
                                {{"protocolVersion", asked},
                                 {"capabilities", json::object()},
                                 {"clientInfo", {{"name", "x"}, {"version", "1"}}}},
                                "first");
    CHECK(answer["result"]["protocolVersion"] == "2025-06-18");
    CHECK(answer["result"]["capabilities"] == json{{"tools", json::object()}});
    CHECK(answer["result"]["serverInfo"]["name"] == "meshwright");
    CHECK(one.ask("initialize", {{"protocolVersion", asked}})["error"]["code"] == -32600);
    CHECK(one.end() == 0);
  }
  CHECK(client.ask("initialize", json::object())["error"]["code"] == -32602);
  CHECK(client.interrupt() == 5);
}

TEST_CASE("mcp: tools have schemas, and answer what the commands print", "[mcp]") {
  Client client;
  client.begin();
  const json list = client.ask("tools/list", json::object())["result"]["tools"];
  std::vector<std::string> names;
  for (const json& tool : list) {
    names.push_back(tool["name"]);
    CHECK(tool["description"].is_string());
    CHECK(tool["inputSchema"]["type"] == "object");
    for (const json& name : tool["inputSchema"].value("required", json::array()))
      CHECK(tool["inputSchema"]["properties"].contains(name.get<std::string>()));
  }
  CHECK(names ==
        std::vector<std::string>{"plan", "simulate", "advise", "explain", "list", "schema"});
  CHECK(client.ask("tools/list", {{"cursor", "x"}})["error"]["code"] == -32602);

  const TestFolder folder;
  const auto write = [&](const char* name, const json& job) {
    std::ofstream(folder.file(name)) << job;
    return folder.file(name);
  };
  const std::string file = write("job.json", small_job);
  const json plan = client.call("plan", {{"job", small_job}, {"top", 3}})["result"];
  CHECK(plan["isError"] == false);
  CHECK(without_times(plan["structuredContent"]) ==
        without_times(answer_of("plan " + file + " --top 3")));
  CHECK(json::parse(text_of(plan)) == plan["structuredContent"]);

  json settled = small_job;
  settled["cluster"] = {{"machine", "p3.16xlarge"}, {"count", 1}};
  settled["parallelism"] = {{"pipeline", 2}};
  settled["training"]["micro_batch"] = 1;
  json other = settled;
  other["parallelism"] = {{"pipeline", 1}};
  CHECK(without_times(client.call("simulate", {{"job", settled}})["result"]["structuredContent"]) ==
        without_times(answer_of("simulate " + write("settled.json", settled))));
  const json explained =
      client.call("explain", {{"a", settled}, {"b", other}})["result"]["structuredContent"];
  json expected =
      answer_of("explain " + folder.file("settled.json") + " " + write("other.json", other));
  CHECK(explained.size() == expected.size());
  CHECK(client.call("list", {{"what", "machines"}})["result"]["structuredContent"] ==
        answer_of("list machines"));
  CHECK(client.call("schema", json::object())["result"]["structuredContent"].contains("$schema"));
}

TEST_CASE("mcp: a refused job is a result that says why", "[mcp]") {
  Client client;
  client.begin();
  json job = small_job;
  job["training"]["global_batsch"] = 1;
  const json refused = client.call("plan", {{"job", job}})["result"];
  CHECK(refused["isError"] == true);
  CHECK(text_of(refused) ==
        "job.json: /training/global_batsch: unknown key; did you mean 'global_batch'?");
  job = small_job;
  job["model"] = "../../etc/config.json";
  const json file = client.call("plan", {{"job", job}})["result"];
  CHECK(file["isError"] == true);
  CHECK(text_of(file).find("is a file") != std::string::npos);
  job = small_job;
  job["model"] = "gpt3-175b";
  const json unfit = client.call("plan", {{"job", job}})["result"];
  CHECK(unfit["isError"] == true);
  CHECK(text_of(unfit).starts_with("no plan fits"));
  CHECK(unfit["structuredContent"]["plans"] == json::array());
  CHECK(client.call("list", {{"what", "machinez"}})["result"]["isError"] == true);
}

TEST_CASE("mcp: what is no request is refused with its code", "[mcp]") {
  Client client;
  client.begin();
  for (const char* line : {"{", "nothing", "{\"jsonrpc\": \"2.0\", \"id\": 1,,}", "\xff\xfe",
                           R"({"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"})"})
    CHECK(client.code_of(line) == -32700);
  CHECK(client.code_of(std::string(1000, '[')) == -32700);
  for (const char* line :
       {"[]", R"([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])", "7", "{}",
        R"({"jsonrpc": "1.0", "id": 1, "method": "ping"})", R"({"id": 1, "method": "ping"})",
        R"({"jsonrpc": "2.0", "id": null, "method": "ping"})",
        R"({"jsonrpc": "2.0", "id": 1.5, "method": "ping"})",
        R"({"jsonrpc": "2.0", "id": 1, "method": 7})", R"({"jsonrpc": "2.0", "id": 1})"})
    CHECK(client.code_of(line) == -32600);
  CHECK(client.code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "resources/list"})") == -32601);
  for (const char* params :
       {"[]", R"({})", R"({"name": 1})", R"({"name": "train", "arguments": {}})",
        R"({"name": "plan", "arguments": []})", R"({"name": "plan", "arguments": {}})",
        R"({"name": "plan", "arguments": {"job": "job.json"}})",
        R"({"name": "plan", "arguments": {"job": {}, "top": 0}})",
        R"({"name": "plan", "arguments": {"job": {}, "write": "/tmp/x"}})",
        R"({"name": "list", "arguments": {"what": "--help"}})",
        R"({"name": "list", "arguments": {"name": "p3.2xlarge"}})",
        R"({"name": "list", "arguments": {}, "_meta": {"progressToken": {}}})"})
    CHECK(client.code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": )" +
                         std::string(params) + "}") == -32602);
  // These lines get no response, so the next response is that of the ping.
  client.send_line(R"({"jsonrpc": "2.0", "method": "notifications/unknown"})");
  client.send_line(R"({"jsonrpc": "2.0", "id": 3, "result": {}})");
  client.send_line(std::string());
  CHECK(client.ask("ping", json::object())["result"] == json::object());
  // A line that is too long gives one error, whatever it holds.
  CHECK(client.code_of(std::string(3'000'000, ' ') + "{}") == -32600);
  CHECK(client.ask("ping", json::object())["result"] == json::object());
  CHECK(client.end() == 0);
}

TEST_CASE("mcp: a call ends when it takes too long, is cancelled, or its client goes", "[mcp]") {
  const auto begin = std::chrono::steady_clock::now();
  {
    Client client("--time-limit 1");
    client.begin();
    const json late = client.call("plan", {{"job", meshwright::tests::long_job()}})["result"];
    CHECK(late["isError"] == true);
    CHECK(text_of(late) == "the search took longer than 1 s, which is the most");
  }
  Client client;
  client.begin();
  const json call = {{"name", "plan"},
                     {"arguments", {{"job", meshwright::tests::long_job()}}},
                     {"_meta", {{"progressToken", "token"}}}};
  client.send({{"jsonrpc", "2.0"}, {"id", "long"}, {"method", "tools/call"}, {"params", call}});
  const json progress = client.receive();
  CHECK(progress["method"] == "notifications/progress");
  CHECK(progress["params"]["progressToken"] == "token");
  CHECK(progress["params"]["progress"] == 1);
  CHECK_THAT(
      progress["params"]["message"].get<std::string>(),
      Catch::Matchers::Matches("plans for [0-9]+ x [a-z0-9.]+: [0-9]+ simulated of [0-9]+.*"));
  CHECK(client.code_of(R"({"jsonrpc": "2.0", "id": "long", "method": "ping"})") == -32600);
  client.send({{"jsonrpc", "2.0"},
               {"method", "notifications/cancelled"},
               {"params", {{"requestId", "long"}}}});
  CHECK(client.ask("ping", json::object(), 9)["result"] == json::object());
  // This call still runs when the input ends.
  client.send({{"jsonrpc", "2.0"}, {"id", "last"}, {"method", "tools/call"}, {"params", call}});
  CHECK(client.receive()["method"] == "notifications/progress");
  CHECK(client.end() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
}
