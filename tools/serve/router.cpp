#include "tools/serve/router.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "hwprofiles/cores.h"
#include "models/core/error.h"
#include "tools/report/assets.h"
#include "tools/serve/answer.h"
#include "tools/serve/limits.h"

namespace meshwright::tools {

namespace {

constexpr const char* json_type = "application/json";
constexpr const char* lines_type = "application/x-ndjson";

void set(httplib::Response& response, const Answer& answer, const std::string& type) {
  response.status = answer.status;
  response.set_content(answer.text, answer.status == 200 ? type : json_type);
}

void refuse(httplib::Response& response, int status, const std::string& message) {
  set(response, error_answer(status, message), json_type);
}

// Sets headers so that the page loads nothing from elsewhere, sends nothing elsewhere, and is not
// shown in another page.
void harden(httplib::Response& response) {
  response.set_header("Content-Security-Policy",
                      "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri "
                      "'none'; form-action 'none'; frame-ancestors 'none'");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  response.set_header("Cache-Control", "no-store");
}

int running_at_once() { return std::min(usable_cores(), most_running); }

// Returns the socket of the client (Connection::get_remote_ip_and_port()).
int client_of(const httplib::Request& request) { return request.remote_port; }

bool has_left(int client, int stopping) {
  pollfd fds[] = {{client, POLLRDHUP, 0}, {stopping, POLLIN, 0}};
  return poll(fds, 2, 0) > 0;
}

bool is_json(const httplib::Request& request) {
  const std::string type = request.get_header_value("Content-Type");
  return type == json_type || type.starts_with(std::string(json_type) + ";");
}

std::uint64_t length_of(const httplib::Request& request) {
  return std::strtoull(request.get_header_value("Content-Length").c_str(), nullptr, 10);
}

bool wants_lines(const httplib::Request& request) {
  return request.get_header_value("Accept").find(lines_type) != std::string::npos;
}

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "text/plain; charset=utf-8";
}

// Returns {"commands": ["/api/plan", ...]}.
std::string commands_text() {
  std::string names;
  for (const ServedCommand& each : served_commands())
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", each.path);
  return "{\"commands\": [" + names + "]}\n";
}

// Returns the last line of a response in lines: {"answer": ...} or {"error": ...}.
std::string last_line(const Answer& answer) {
  if (answer.status != 200) return answer.text;
  std::string text = answer.text;
  std::erase(text, '\n');  // these are between tokens; strings have them escaped
  return "{\"answer\": " + text + "}\n";
}

// Reads the body. Returns false if it is longer than `most_body_bytes` or does not arrive in time.
bool read_body(const httplib::ContentReader& reader, std::string& body) {
  return reader([&](const char* some, std::size_t size) {
    if (body.size() + size > most_body_bytes) return false;
    body.append(some, size);
    return true;
  });
}

std::string too_large() {
  return fmt::format("the body is larger than {} bytes, which is the most", most_body_bytes);
}

}  // namespace

Router::Router(ServedAddress address, const Serving& serving, int stopping)
    : address_(std::move(address)),
      serving_(serving),
      stopping_(stopping),
      places_(running_at_once(), waiting_per_running * running_at_once()) {}

bool Router::is_allowed(const Request& request, Response& response) const {
  const std::string host = request.get_header_value("Host");
  if (request.get_header_value_count("Host") != 1 || !address_.is_host(host)) {
    refuse(response, 403,
           fmt::format("Host '{}' is not this server, which is {}; another name: --host", host,
                       address_.url()));
    return false;
  }
  if (!request.has_header("Origin")) return true;
  const std::string origin = request.get_header_value("Origin");
  if (request.get_header_value_count("Origin") == 1 && address_.is_origin(origin)) return true;
  refuse(response, 403, fmt::format("pages of '{}' may not ask this server", origin));
  return false;
}

// Answers everything that needs no body, errors included. Only a valid request for a command is
// left to be answered.
Router::Routed Router::before_body(const Request& request, Response& response) const {
  harden(response);
  if (!is_allowed(request, response)) return Routed::Handled;
  const bool gets = request.method == "GET" || request.method == "HEAD";
  const std::string name = request.path == "/" ? "index.html" : request.path.substr(1);
  const auto page = asset(name);
  const auto list = list_call(request.path);
  const ServedCommand* command = served_command(request.path);
  const bool is_index = request.path == "/api";
  if (!page && !list && !is_index && command == nullptr) {
    refuse(response, 404, fmt::format("there is nothing at {}", request.path));
  } else if (command == nullptr ? !gets : request.method != "POST") {
    const char* allowed = command == nullptr ? "GET, HEAD" : "POST";
    response.set_header("Allow", allowed);
    refuse(response, 405,
           fmt::format("{} takes {}, not {}", request.path, allowed, request.method));
  } else if (page) {
    response.set_content(std::string(*page), type_of(name));
  } else if (is_index) {
    response.set_content(commands_text(), json_type);
  } else if (list) {
    answer_list(*list, client_of(request), response);
  } else if (!is_json(request)) {
    refuse(response, 415, "the body is a job: Content-Type: application/json");
  } else if (length_of(request) > most_body_bytes) {
    refuse(response, 413, too_large());
  } else {
    return Routed::Unhandled;
  }
  if (response.status < 0) response.status = 200;
  return Routed::Handled;
}

void Router::answer_list(const Call& call, int client, Response& response) const {
  Answer answer = answer_to({call}, serving_.program, client, stopping_, [](const auto&) {});
  if (answer.status == 400) answer.status = 404;
  set(response, answer, json_type);
}

void Router::answer_command(const ServedCommand& command, const Request& request,
                            const std::string& body, Response& response) {
  const bool in_lines = wants_lines(request) && command.file_option.empty();
  Question question{call_of(command, body, request.params, serving_.models),
                    !command.file_option.empty()};
  question.call.options.insert(serving_.job_options.begin(), serving_.job_options.end());
  std::shared_ptr<Places::Place> place = places_.take();
  if (!place) {
    response.set_header("Retry-After", "5");
    return refuse(response, 429,
                  "the server is busy and its queue is full; try again in a few "
                  "seconds");
  }
  const auto ask = [question, place, program = serving_.program, client = client_of(request),
                    stopping = stopping_](const std::function<void(const std::string&)>& watch) {
    if (!place->wait([&] { return has_left(client, stopping); }))
      return error_answer(503, "the server stops");
    return answer_to(question, program, client, stopping, watch);
  };
  if (!in_lines) return set(response, ask([](const auto&) {}), std::string(command.type));
  response.set_chunked_content_provider(lines_type, [ask](std::size_t, httplib::DataSink& sink) {
    const auto say = [&](const std::string& line) { sink.write(line.data(), line.size()); };
    say(last_line(ask([&](const std::string& line) { say(line + "\n"); })));
    sink.done();
    return true;
  });
}

void Router::answer_for(httplib::Server& server) {
  server.set_pre_routing_handler([this](const Request& request, Response& response) {
    return before_body(request, response);
  });
  server.Post("/api/.*", [this](const Request& request, Response& response,
                                const httplib::ContentReader& reader) {
    std::string body;
    if (!read_body(reader, body)) {
      if (body.size() + 1 > most_body_bytes / 2) return refuse(response, 413, too_large());
      return refuse(response, 408, "the body did not arrive in time");
    }
    try {
      answer_command(*served_command(request.path), request, body, response);
    } catch (const InputError& error) {
      refuse(response, 400, error.what());
    } catch (const std::exception& error) {
      refuse(response, 500, error.what());
    }
  });
  // Answers the requests that the HTTP library itself rejects.
  const httplib::Server::HandlerWithResponse refused = [](const Request&, Response& response) {
    if (response.body.empty())
      refuse(response, response.status,
             response.status == 400 ? "this is no HTTP request" : "the request cannot be answered");
    return Routed::Handled;
  };
  server.set_error_handler(refused);
}

}  // namespace meshwright::tools
