#include "tools/mcp/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>

#include "exec/launch/exit_codes.h"
#include "hwprofiles/cores.h"
#include "models/core/error.h"
#include "tools/mcp/calls.h"
#include "tools/mcp/messages.h"
#include "tools/mcp/tools.h"
#include "tools/serve/limits.h"
#include "tools/version.h"

namespace meshwright::tools::mcp {

namespace {

constexpr const char* instructions =
    "Meshwright plans the training of large models on GPU clusters and predicts time, memory and "
    "cost of a step before anything runs. Read `schema` once to write a job, `list` for names of "
    "models and machines; `plan` searches, `simulate` predicts one plan.";

void send(const std::string& line) {
  static std::mutex sending;
  const std::lock_guard lock(sending);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

// Returns the version, "0.2.0", from the first line of version_text(), "meshwright 0.2.0".
std::string version() {
  std::string_view line = version_text().substr(0, version_text().find('\n'));
  return std::string(line.substr(line.find(' ') + 1));
}

class Session {
 public:
  explicit Session(const Serving& serving)
      : serving_(serving),
        calls_(serving.program, std::min(usable_cores(), most_running),
               waiting_per_running * most_running, send) {}

  void take(const std::string& line) {
    json id;
    try {
      const Message message = read_message(line);
      id = message.id;
      if (message.kind == Message::Kind::request) answer(message);
      if (message.kind == Message::Kind::notification) note(message);
    } catch (const Refusal& refusal) {
      send(error_line(id.is_null() ? refusal.id() : id, refusal.code(), refusal.what()));
    } catch (const std::exception& error) {
      send(error_line(id, Code::internal_error, error.what()));
    }
  }

 private:
  void answer(const Message& message) {
    if (calls_.runs(message.id))
      throw Refusal(Code::invalid_request, "a request of this id has no answer yet");
    if (message.method == "ping") return send(result_line(message.id, json::object()));
    if (message.method == "initialize") return initialize(message);
    if (message.method != "tools/list" && message.method != "tools/call")
      throw Refusal(Code::method_not_found, "there is no method '" + message.method + "'");
    if (!is_initialized_)
      throw Refusal(Code::invalid_request, "'initialize' comes before '" + message.method + "'");
    if (message.method == "tools/call") return call(message);
    if (message.params.contains("cursor"))
      throw Refusal(Code::invalid_params, "cursor: there is one page");
    send(result_line(message.id, {{"tools", tool_list()}}));
  }

  // Answers `initialize` with the only protocol version that the server speaks, whatever version
  // the client asks for. The client decides whether to go on.
  void initialize(const Message& message) {
    if (is_initialized_) throw Refusal(Code::invalid_request, "is initialized");
    if (!message.params.value("protocolVersion", json()).is_string())
      throw Refusal(Code::invalid_params, "protocolVersion: is missing, or no string");
    is_initialized_ = true;
    send(result_line(
        message.id,
        {{"protocolVersion", protocol_version},
         {"capabilities", {{"tools", json::object()}}},
         {"serverInfo", {{"name", "meshwright"}, {"title", "Meshwright"}, {"version", version()}}},
         {"instructions", instructions}}));
  }

  void call(const Message& message) {
    const json name = message.params.value("name", json());
    if (!name.is_string()) throw Refusal(Code::invalid_params, "name: is missing, or no string");
    const json meta = message.params.value("_meta", json::object());
    const json token = meta.is_object() ? meta.value("progressToken", json()) : json();
    if (!token.is_null() && !token.is_string() && !token.is_number_integer())
      throw Refusal(Code::invalid_params, "progressToken: must be a string or a whole number");
    try {
      Question question =
          question_of(name, message.params.value("arguments", json::object()), serving_.models);
      if (!question.call.jobs.empty())
        question.call.options.insert(serving_.job_options.begin(), serving_.job_options.end());
      question.limit = serving_.to_answer;
      calls_.start(message.id, std::move(question), token);
    } catch (const InputError& error) {
      send(result_line(message.id, result_of(error_answer(400, error.what()))));
    }
  }

  void note(const Message& message) {
    if (message.method == "notifications/cancelled")
      calls_.cancel(message.params.value("requestId", json()));
  }

  const Serving serving_;
  bool is_initialized_ = false;
  Calls calls_;
};

// Splits standard input into lines. A line that is too long is rejected as a whole, and blank lines
// are skipped.
class Lines {
 public:
  // Reads once. Passes every complete line to `take`, or calls `refuse` if the line was too long.
  // Returns false at the end of the input or after an error.
  template <class Take, class Refuse>
  bool read_some(const Take& take, const Refuse& refuse) {
    std::array<char, 65536> some;
    const ssize_t got = read(STDIN_FILENO, some.data(), some.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    for (ssize_t i = 0; i < got; ++i) {
      const char c = some[i];
      if (c != '\n') {
        if (line_.size() < most_line_bytes)
          line_ += c;
        else
          is_too_long_ = true;
        continue;
      }
      if (is_too_long_)
        refuse();
      else if (line_.find_first_not_of(" \t\r") != std::string::npos)
        take(line_);
      line_.clear();
      is_too_long_ = false;
    }
    return got > 0;
  }

 private:
  std::string line_;
  bool is_too_long_ = false;
};

int told_to_end = -1;

// Returns a descriptor that becomes readable on SIGINT or SIGTERM. A handler writes to it, because
// any thread may get the signal, also those of libraries.
int signals() {
  told_to_end = eventfd(0, EFD_CLOEXEC);
  if (told_to_end < 0) throw RunError("no event can be made");
  struct sigaction action = {};
  action.sa_handler = [](int) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(told_to_end, &one, sizeof one);
  };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return told_to_end;
}

}  // namespace

int serve(const Serving& serving) {
  const int ending = signals();
  Session session(serving);
  Lines lines;
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {ending, POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return stopped;
    if (fds[0].revents == 0) continue;
    const bool more = lines.read_some(
        [&](const std::string& line) { session.take(line); },
        [] {
          send(error_line(nullptr, Code::invalid_request,
                          "a line is longer than " + std::to_string(most_line_bytes) + " bytes"));
        });
    if (!more) return done;
  }
}

}  // namespace meshwright::tools::mcp
