// Tests that the answers of `serve` are those of the commands, and that it goes on whatever a
// client does.
#include <httplib.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/jobs.h"
#include "tests/tools/program.h"
#include "tests/tools/served.h"
#include "tools/serve/address.h"

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

const json small_job = [] {
  json job = meshwright::tests::planned_job();
  job["objective"] = {{"tokens", 1e8}};
  return job;
}();

json settled_job() {
  json job = small_job;
  job["cluster"] = {{"machine", "p3.16xlarge"}, {"count", 1}};
  job["parallelism"] = {{"pipeline", 2}};
  job["training"]["micro_batch"] = 1;
  return job;
}

httplib::Client client_of(const Served& served) {
  httplib::Client client("127.0.0.1", served.port());
  client.set_read_timeout(120);
  return client;
}

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  return text.find(part) != std::string::npos;
}

std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("\"(search|simulation)_wall_s\": [^,\n]*"), "");
}

struct Told {
  int status = 0;
  std::string body;
};
Told post(const Served& served, const std::string& path, const std::string& body,
          const httplib::Headers& headers = {}) {
  auto client = client_of(served);
  const auto result = client.Post(path, headers, body, "application/json");
  if (!result) return {};
  return {result->status, result->body};
}

Told get(const Served& served, const std::string& path) {
  auto client = client_of(served);
  const auto result = client.Get(path);
  if (!result) return {};
  return {result->status, result->body};
}

std::string request_of(const Served& served, const std::string& line, const std::string& more = "",
                       const std::string& body = "") {
  return line + " HTTP/1.1\r\nHost: " + served.host() + "\r\n" + more + "\r\n" + body;
}

std::string post_of(const Served& served, const std::string& more, const std::string& body) {
  return request_of(served, "POST /api/plan",
                    "Content-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n" + more,
                    body);
}

// Waits until the condition holds, and returns whether it does. The limit of two minutes is for a
// server that hangs, and is enough on a busy computer.
bool becomes(const std::function<bool()>& is_so) {
  for (int i = 0; i < 12'000 && !is_so(); ++i) std::this_thread::sleep_for(10ms);
  return is_so();
}

// Is a client that sends its question and waits for the answer on a thread.
class Waiting {
 public:
  Waiting(const Served& served, const std::string& body)
      : client_(std::make_shared<httplib::Client>("127.0.0.1", served.port())),
        thread_([client = client_, status = status_, body] {
          client->set_read_timeout(600);
          const auto result = client->Post("/api/plan", body, "application/json");
          *status = result ? result->status : 0;
        }) {}
  ~Waiting() {
    client_->stop();
    if (thread_.joinable()) thread_.join();
  }
  // Waits for the end of the connection. Returns the status of the answer, or 0 if there was none.
  int status() {
    thread_.join();
    return *status_;
  }

 private:
  std::shared_ptr<httplib::Client> client_;
  std::shared_ptr<int> status_ = std::make_shared<int>(0);
  std::thread thread_;
};

}  // namespace

TEST_CASE("answers are those of the commands, byte for byte", "[serve]") {
  const Served served;
  const TestFolder folder;
  const auto printed = [&](const std::string& words) {
    const Answer answer =
        run_line("cd '" + folder.path() + "' && '" MESHWRIGHT_PROGRAM "' " + words);
    REQUIRE(answer.code == 0);
    return without_times(answer.out);
  };
  const auto write = [&](const json& job) {
    std::ofstream(folder.file("job.json")) << job.dump();
    return job.dump();
  };
  const std::string plan = write(small_job);
  const Told planned = post(served, "/api/plan", plan);
  CHECK(planned.status == 200);
  CHECK(without_times(planned.body) == printed("plan job.json --json"));
  CHECK(without_times(post(served, "/api/plan?top=2", plan).body) ==
        printed("plan job.json --json --top 2"));
  for (const std::string command : {"advise", "sensitivity"})
    CHECK(without_times(post(served, "/api/" + command, plan).body) ==
          printed(command + " job.json --json"));

  const std::string step = write(settled_job());
  CHECK(without_times(post(served, "/api/simulate", step).body) ==
        printed("simulate job.json --json"));
  for (const std::string kind : {"timeline", "trace", "report"}) {
    printed("simulate job.json --" + kind + " written");
    std::ifstream written(folder.file("written"));
    CHECK(post(served, "/api/" + kind, step).body ==
          std::string(std::istreambuf_iterator<char>(written), {}));
  }
  json of_megatron = small_job;
  of_megatron["cluster"] = {{"machine", "g5.12xlarge"}, {"count", 1}};
  of_megatron["training"]["framework"] = "megatron-lm";
  const std::string settings = write(of_megatron);
  CHECK(without_times(post(served, "/api/export?for=megatron-lm", settings).body) ==
        printed("export job.json --for megatron-lm --json"));
  json other = settled_job();
  other["training"]["micro_batch"] = 2;
  folder.file("a.json", step);
  folder.file("b.json", other.dump());
  CHECK(post(served, "/api/explain", json{{"a", settled_job()}, {"b", other}}.dump()).body ==
        printed("explain a.json b.json --json"));
  const json lists = answer_of("list");
  for (const std::string what : {"models", "machines", "stacks", "passes"})
    CHECK(lists.at(what) == answer_of("list " + what).at(what));
  CHECK(get(served, "/api/list").body == printed("list --json"));
  CHECK(get(served, "/api/list/models").body == printed("list models --json"));
  CHECK(get(served, "/api/list/machines/g5.12xlarge").body ==
        printed("list machines g5.12xlarge --json"));
  CHECK(get(served, "/api/list/xyzzy").status == 404);
}

TEST_CASE("an answer in lines reports progress and ends with the same result", "[serve]") {
  const Served served;
  const Told whole = post(served, "/api/plan", small_job.dump());
  const Told lines =
      post(served, "/api/plan", small_job.dump(), {{"Accept", "application/x-ndjson"}});
  std::istringstream text(lines.body);
  std::vector<json> said;
  for (std::string line; std::getline(text, line);) said.push_back(json::parse(line));
  REQUIRE(said.size() > 4);  // of four clusters, and the answer
  std::set<std::string> clusters;
  for (std::size_t i = 0; i + 1 < said.size(); ++i) {
    CAPTURE(said[i].dump());
    const json& progress = said[i].at("progress");
    clusters.insert(progress.at("machine").get<std::string>() + progress.at("count").dump());
    CHECK(progress.at("candidates_enumerated") > 0);
  }
  CHECK(clusters.size() == 4);
  json answer = said.back().at("answer"), same = json::parse(whole.body);
  answer.erase("search_wall_s");
  same.erase("search_wall_s");
  CHECK(answer == same);
}

TEST_CASE("what a job says wrong is said as the command says it", "[serve]") {
  const Served served;
  const auto message_of = [&](int status, const std::string& body) {
    const Told told = post(served, "/api/plan", body);
    CAPTURE(body, told.body);
    CHECK(told.status == status);
    const json error = json::parse(told.body).at("error");
    CHECK(error.at("status") == status);
    return error.at("message").get<std::string>();
  };
  CHECK(has(message_of(400, "{\"model\": "), "job.json: "));
  CHECK(has(message_of(400, "[]"), "job.json"));
  json job = small_job;
  job["model"] = "gpt3-176b";
  CHECK(has(message_of(400, job.dump()), "did you mean 'gpt3-175b'?"));
  job = small_job;
  job["training"]["global_batches"] = 3;
  CHECK(has(message_of(400, job.dump()), "did you mean 'global_batch'"));
  job = small_job;
  job["model"] = "gpt3-175b";
  CHECK(has(message_of(422, job.dump()), "no plan fits"));
  CHECK(
      json::parse(post(served, "/api/plan", job.dump()).body)["error"]["answer"]["plans"].empty());
  CHECK(post(served, "/api/plan?top=x", small_job.dump()).status == 400);
  CHECK(post(served, "/api/plan?output=x", small_job.dump()).status == 400);
  for (const std::string query : {"", "?for=", "?for=--to", "?for=xyzzy", "?for=torchtitan&to=x"})
    CHECK(post(served, "/api/export" + query, small_job.dump()).status == 400);
}

TEST_CASE("a job names no file of the server", "[serve]") {
  const Served served;
  const TestFolder folder;
  std::ofstream(folder.file("config.json")) << R"({"model_type": "gpt2", "n_layer": 2})";
  const auto refused = [&](const json& job, const std::string& key) {
    const Told told = post(served, "/api/plan", job.dump());
    CAPTURE(key, told.body);
    CHECK(told.status == 400);
    CHECK(has(told.body, "job.json: " + key));
    CHECK(has(told.body, "names none"));
  };
  for (const std::string& path :
       {folder.file("config.json"), folder.path() + "/", std::string(".."),
        std::string("../config.json"), std::string("x.onnx")}) {
    json job = small_job;
    job["model"] = path;
    refused(job, "/model");
  }
  json job = settled_job();
  job["parallelism"]["partition"] = "/etc/stages.json";
  refused(job, "/parallelism/partition");
  job = settled_job();
  job["cluster"]["topology"] = "/etc/passwd";
  refused(job, "/cluster/topology");
  job = settled_job();
  job.erase("parallelism");
  job["distribution"]["smdistributed"]["modelparallel"] = {{"enabled", true},
                                                           {"parameters", "/etc/passwd"}};
  refused(job, "/distribution/smdistributed/modelparallel/parameters");
  job["distribution"]["smdistributed"]["modelparallel"]["parameters"] = {
      {"partitions", 2}, {"auto_partition", false}, {"partition_file", "/etc/passwd"}};
  refused(job, "/distribution/smdistributed/modelparallel/parameters/partition_file");

  // A job can hold the content of a config.json as its model. Names of files that only training
  // opens are not opened.
  job = settled_job();
  std::ifstream config(source + "/models/zoo/gpt2.json");
  job["model"] = json::parse(config);
  job["data"] = {{"files", {"/etc/shadow"}},
                 {"format", "pairs"},
                 {"tokenizer", "/etc/shadow"},
                 {"evaluation", {{"files", {"/etc/shadow"}}, {"every_steps", 10}}}};
  job["checkpoint"] = {{"folder", "/etc"}, {"every_steps", 100}};
  job["log"] = {{"json", "/etc/meshwright.json"}};
  CHECK(post(served, "/api/simulate", job.dump()).status == 200);
}

// If a new key is found here, make sure that nothing the server runs opens its file, or that
// tools/serve/job_files.cpp refuses it.
TEST_CASE("every key of a job that names a file is known to the server", "[serve]") {
  const std::regex names_file(R"(resolve\(job, |Paths?\{&)");
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source + "/models/job")) {
    const std::string text = content_of(entry.path());
    found += static_cast<int>(
        std::distance(std::sregex_iterator(text.begin(), text.end(), names_file), {}));
  }
  CHECK(found == 13);
}

TEST_CASE("requests that are no questions of this page get a clear answer", "[serve]") {
  const Served served;
  const auto status = [&](const std::string& request) {
    return status_of(raw_answer(served.port(), request));
  };
  const std::string host = "Host: " + served.host() + "\r\n", job = small_job.dump();
  CHECK(status(request_of(served, "GET /")) == 200);
  CHECK(status("GET / HTTP/1.1\r\nHost: localhost:" + std::to_string(served.port()) + "\r\n\r\n") ==
        200);
  // Somebody can make another name point to this server.
  for (const std::string name :
       {"evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.evil.example:80"})
    CHECK(status("GET / HTTP/1.1\r\nHost: " + name + "\r\n\r\n") == 403);
  CHECK(status("GET / HTTP/1.1\r\n\r\n") == 403);
  CHECK(status("GET / HTTP/1.1\r\n" + host + "Host: evil.example\r\n\r\n") == 403);
  CHECK(status(post_of(served, "Origin: http://" + served.host() + "\r\n", job)) == 200);
  for (const std::string origin : {"http://evil.example", "null", "https://127.0.0.1"})
    CHECK(status(post_of(served, "Origin: " + origin + "\r\n", job)) == 403);
  // A request with two origins is refused, also if the first is this page's.
  const std::string own = "Origin: http://" + served.host() + "\r\n";
  CHECK(status(post_of(served, own + own, job)) == 403);
  CHECK(status(post_of(served, own + "Origin: http://evil.example\r\n", job)) == 403);
  // A form on another page could send this request.
  CHECK(status(request_of(served, "POST /api/plan",
                          "Content-Type: text/plain\r\nContent-Length: 2\r\n", "{}")) == 415);
  for (const std::string path : {"/../../etc/passwd", "/..%2f..%2fetc/passwd", "/etc/passwd",
                                 "/api/plan/../../..", "//etc/passwd", "/api/list/../../x",
                                 "/api/list/--help", "/page.js/", "http://evil.example/"})
    CHECK(status(request_of(served, "GET " + path)) == 404);
  CHECK(status(request_of(served, "DELETE /")) == 405);
  CHECK(status(request_of(served, "GET /api/plan")) == 405);
  CHECK(status(request_of(served, "POST /api/list", "Content-Length: 0\r\n")) == 405);
  CHECK(status("nonsense\r\n\r\n") == 400);
  CHECK(status(post_of(served, "", std::string(10'000'000, ' '))) == 413);
  std::string chunked;
  for (int i = 0; i < 200; ++i) chunked += "2000\r\n" + std::string(0x2000, ' ') + "\r\n";
  CHECK(status(request_of(served, "POST /api/plan",
                          "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
                          chunked + "0\r\n\r\n")) == 413);
  // A header without an end is not kept.
  std::string header;
  for (int i = 0; i < 100'000; ++i) header += "X-" + std::to_string(i) + ": 1\r\n";
  CHECK(status(request_of(served, "GET /", header)) != 200);
  CHECK(status(request_of(served, "GET /")) == 200);
}

TEST_CASE("a request whose end is doubtful is refused, and its connection ends", "[serve]") {
  const Served served;
  const std::string job = settled_job().dump(), length = std::to_string(job.size());
  const auto answer = [&](const std::string& headers, const std::string& body) {
    // raw_answer() returns when the server has closed the connection.
    return raw_answer(served.port(),
                      request_of(served, "POST /api/simulate",
                                 "Content-Type: application/json\r\n" + headers, body));
  };
  CHECK(status_of(answer("Content-Length: " + length + "\r\n", job)) == 200);
  const std::string smuggled = job + request_of(served, "GET /api");
  for (const std::string& headers :
       {"Content-Length: " + length + "\r\nContent-Length: 4\r\n",
        "Content-Length: " + length + "\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: " + length + "\r\nTransfer-Encoding: chunked, identity\r\n",
        std::string("Transfer-Encoding: chunked, identity\r\n"),
        "Content-Length: +" + length + "\r\n", "Content-Length : " + length + "\r\n",
        "X: y\r\n Content-Length: " + length + "\r\n", "X: y\rContent-Length: " + length + "\r\n",
        "Content-Length: " + length + "\n"}) {
    const std::string raw = answer(headers, smuggled);
    CAPTURE(headers, raw);
    CHECK(status_of(raw) == 400);
    CHECK(has(raw, "\r\nConnection: close\r\n"));
    const std::size_t body = raw.find("\r\n\r\n") + 4;
    CHECK(json::parse(raw.substr(body))["error"]["status"] == 400);  // and nothing after it
  }
}

TEST_CASE("a part of an answer is not given", "[serve]") {
  const Served served;
  const httplib::Headers part = {{"Range", "bytes=0-9"}};
  const std::string job = settled_job().dump();
  CHECK(without_times(post(served, "/api/simulate", job, part).body) ==
        without_times(post(served, "/api/simulate", job).body));
  auto client = client_of(served);
  const auto page = client.Get("/", part);
  REQUIRE(page);
  CHECK(page->status == 200);
  CHECK(page->body == get(served, "/").body);
  CHECK(post(served, "/api/simulate", job, {{"Range", "bytes=99999999-"}}).status == 200);
}

TEST_CASE("a port has one server, and the next can have it at once", "[serve]") {
  auto first = std::make_unique<Served>();
  const std::string port = std::to_string(first->port());
  const TestFolder folder;
  const auto refusal = [&](const std::string& host) {
    // The time limit ends a server that listens although it must not.
    const Answer answer = run_line(
        "timeout 60 '" MESHWRIGHT_PROGRAM "' serve --port " + port + " --host '" + host + "'",
        folder.file("errors"));
    CAPTURE(host, answer.out);
    CHECK(answer.code == 2);
    CHECK(answer.out.empty());
    return content_of(folder.file("errors"));
  };
  const auto taken = [&](const std::string& address) {
    return "error: serve: port " + port + " of " + address +
           " is taken, perhaps by another serve; --port N takes another one, --port 0 any that is "
           "free\n";
  };
  CHECK(refusal("127.0.0.1") == taken("127.0.0.1"));
  CHECK(refusal("localhost") == taken("127.0.0.1"));
  CHECK(refusal("0.0.0.0") == taken("0.0.0.0"));
  CHECK(refusal("192.0.2.1") ==
        "error: serve: 192.0.2.1 is not an address of this computer; --host 127.0.0.1 is one\n");
  CHECK(has(refusal("no such host"), "error: --host 'no such host': no address is known"));
  CHECK(has(refusal(""), "error: serve: --host is empty"));
  const bool has_ipv6 =
      std::filesystem::exists("/proc/net/if_inet6") && !content_of("/proc/net/if_inet6").empty();
  if (has_ipv6)
    CHECK(refusal("::") == taken("[::]"));
  else
    WARN("skipped: this computer has no IPv6");
  CHECK(get(*first, "/").status == 200);
  // The server has ended that connection, so the system keeps it for a while.
  CHECK(first->end() == 0);
  for (const std::string host : {"127.0.0.1", "0.0.0.0", "::1", "::"}) {
    if (host.find(':') != std::string::npos && !has_ipv6) continue;
    const Served again("--port " + port + " --host " + host);
    CHECK(refusal(host) == taken(host.find(':') == std::string::npos ? host : "[" + host + "]"));
    if (host == "::") CHECK(refusal("127.0.0.1") == taken("127.0.0.1"));
    if (host.find("::1") == std::string::npos) CHECK(get(again, "/").status == 200);
  }
}

TEST_CASE("names by which the server may be called", "[serve]") {
  using meshwright::tools::ServedAddress;
  const ServedAddress own("127.0.0.1", 8080), named("planner.example", 80), any("0.0.0.0", 8080);
  CHECK(own.is_host("LOCALHOST:8080"));
  CHECK(own.is_host("[::1]:8080"));
  CHECK(!own.is_host("localhost"));
  CHECK(!own.is_host("192.168.1.2:8080"));
  CHECK(!own.is_host(""));
  CHECK(named.is_host("planner.example"));
  CHECK(named.is_origin("http://planner.example:80"));
  CHECK_FALSE(ServedAddress("", 80).is_host(":80"));  // where the computer's name is not known
  CHECK_FALSE(ServedAddress("", 80).is_host(""));
  CHECK(!named.is_origin("https://planner.example"));
  // Others can make a name point to this server, but not an address.
  CHECK(any.is_host("192.168.1.2:8080"));
  CHECK(any.is_host("[fe80::1]:8080"));
  CHECK(!any.is_host("evil.example:8080"));
  CHECK(ServedAddress("::1", 1).url() == "http://[::1]:1/");
}

TEST_CASE("a client that goes away ends its search", "[serve]") {
  const Served served;
  {
    Waiting client(served, meshwright::tests::long_job().dump());
    REQUIRE(becomes([&] { return served.searches() == 1; }));
  }
  CHECK(becomes([&] { return served.searches() == 0; }));
  CHECK(post(served, "/api/simulate", settled_job().dump()).status == 200);
}

TEST_CASE("when as many wait as may, others are told to come again", "[serve]") {
  const Served served;
  constexpr int most_places = 40;  // on however many cores
  std::vector<std::unique_ptr<Waiting>> clients;
  Told told;
  for (int i = 0; i < most_places; ++i)
    clients.push_back(std::make_unique<Waiting>(served, meshwright::tests::long_job().dump()));
  // The loop waits until all of them have their places. A question of the loop that gets a place
  // gives it up again.
  for (int i = 0; i < 600 && told.status != 429; ++i) {
    auto client = client_of(served);
    client.set_read_timeout(0, 200'000);
    if (const auto result = client.Post("/api/plan", small_job.dump(), "application/json"))
      told = {result->status, result->body};
  }
  CHECK(told.status == 429);
  CHECK(has(told.body, "try again"));
  CHECK(get(served, "/").status == 200);
}

// Is a question whose answer comes in lines. The first line comes at once and says that the
// question has a place.
class Asked {
 public:
  explicit Asked(const Served& served)
      : socket_(connected(served.port())),
        request_(post_of(served, "Accept: application/x-ndjson\r\n",
                         meshwright::tests::long_job().dump())) {
    send_all(socket_, request_);
    while (got_.find("\r\n") == std::string::npos) REQUIRE(receive());
  }
  ~Asked() { close(socket_); }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  int status() const { return status_of(got_); }
  bool searches() const { return got_.find("\"progress\"") != std::string::npos; }
  void wait_for_its_turn() {
    while (!searches()) REQUIRE(receive());
  }
  void look() {  // at what came by now
    while (receive(MSG_DONTWAIT)) {
    }
  }

 private:
  bool receive(int flags = 0) {
    char some[4096];
    const ssize_t n = recv(socket_, some, sizeof some, flags);
    if (n > 0) got_.append(some, static_cast<std::size_t>(n));
    return n > 0;
  }

  int socket_;
  std::string request_, got_;
};

TEST_CASE("on one core one search runs and four wait, in the order in which they came", "[serve]") {
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const Served served;
  sched_setaffinity(0, sizeof all, &all);
  std::vector<std::unique_ptr<Asked>> asked;
  for (int i = 0; i < 5; ++i) {
    asked.push_back(std::make_unique<Asked>(served));
    CHECK(asked.back()->status() == 200);
  }
  CHECK(Asked(served).status() == 429);
  asked[0]->wait_for_its_turn();
  CHECK(served.searches() == 1);
  asked[0].reset();
  asked[1]->wait_for_its_turn();
  const Asked last(served);
  CHECK(last.status() == 200);
  CHECK(Asked(served).status() == 429);
  CHECK(served.searches() == 1);
  for (int i = 2; i < 5; ++i) {
    asked[i]->look();
    CHECK_FALSE(asked[i]->searches());
  }
  asked[2].reset();  // before its turn
  asked[1].reset();
  asked[3]->wait_for_its_turn();
  asked[4]->look();
  CHECK_FALSE(asked[4]->searches());
}

TEST_CASE("a page does not wait for clients that do not end their requests", "[serve]") {
  const Served served;
  std::vector<int> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(connected(served.port()));
    send_all(slow.back(), "POST /api/plan HTTP/1.1\r\nHost: ");
  }
  CHECK(get(served, "/").status == 200);
  for (const int each : slow) close(each);
}

TEST_CASE("asked to stop, the server ends what it has begun and itself", "[serve]") {
  Served served;
  Waiting client(served, meshwright::tests::long_job().dump());
  REQUIRE(becomes([&] { return served.searches() == 1; }));
  CHECK(served.end() == 0);
  CHECK(client.status() != 200);  // the search was ended, not waited for
}

// Meanwhile other clients send nothing more, or a byte now and then.
TEST_CASE("twenty clients at once get their answers, or are told to come again", "[serve]") {
  const Served served;
  std::atomic<int> given_up = 0;
  std::vector<std::thread> slow;
  for (int i = 0; i < 10; ++i)
    slow.emplace_back([&] {
      const std::string none = raw_answer(served.port(), "POST /api/plan HTTP/1.1\r\nHost: ");
      given_up += status_of(none) != 200;
    });
  const auto expected = without_times(post(served, "/api/simulate", settled_job().dump()).body);
  std::atomic<int> right = 0, told_to_wait = 0, wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 20; ++i)
    clients.emplace_back([&] {
      auto client = client_of(served);
      const auto result = client.Post("/api/simulate", settled_job().dump(), "application/json");
      if (result && result->status == 200 && without_times(result->body) == expected)
        ++right;
      else if (result && result->status == 429 && result->has_header("Retry-After") &&
               json::parse(result->body)["error"]["status"] == 429)
        ++told_to_wait;
      else
        ++wrong;
    });
  for (std::thread& each : clients) each.join();
  INFO(right << " right, " << told_to_wait << " told to come again");
  CHECK(wrong == 0);
  CHECK(right > 0);
  CHECK(right + told_to_wait == 20);
  for (std::thread& each : slow) each.join();
  CHECK(given_up == 10);
}

TEST_CASE("fifty clients get their answers and leave nothing behind", "[serve]") {
  const Served served;
  std::atomic<int> wrong = 0;
  const auto ask = [&](int client, int request) {
    const int kind = client + request;
    const Told told = kind % 10 == 0  ? post(served, "/api/simulate", settled_job().dump())
                      : kind % 3 == 0 ? post(served, "/api/plan", "{")
                                      : get(served, "/chart.min.js");
    wrong += told.status != 200 && told.status != 429 && told.status != 400;
  };
  constexpr int clients = 50, requests = 20;
  const auto round = [&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < clients; ++i)
      threads.emplace_back([&, i] {
        for (int k = 0; k < requests; ++k) ask(i, k);
      });
    for (std::thread& each : threads) each.join();
    return served.resident_mib();
  };
  // The heaps of threads grow during some rounds. A server that kept as little as 1 KiB of each
  // request would grow by about 1 MiB in every round.
  double before = round(), after = round();
  for (int rounds = 2; after > before + 0.9 && rounds < 20; ++rounds) {
    before = after;
    after = round();
  }
  CHECK(wrong == 0);
  CHECK(after < before + 0.9);
  CHECK(becomes([&] { return served.searches() == 0; }));
}
