#include "tools/mcp/calls.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <exception>

#include "models/core/error.h"
#include "tools/mcp/messages.h"
#include "tools/mcp/tools.h"
#include "tools/session/text.h"

namespace meshwright::tools::mcp {

namespace {

// Returns a line on the progress of a search (tools/report/search_watch.cpp) as text for people,
// and any other line as it is.
std::string progress_text(const std::string& line) {
  const json said = json::parse(line, nullptr, false);
  if (!said.is_object() || !said.contains("progress")) return line;
  const json& at = said["progress"];
  std::string text =
      fmt::format("plans for {} x {}: {} simulated of {}", at.value("count", 0),
                  at.value("machine", ""), at.value("candidates_simulated", std::int64_t{0}),
                  at.value("candidates_enumerated", std::int64_t{0}));
  if (const json best = at.value("best_step_time_s", json()); best.is_number())
    text += ", the best step takes " + show_duration(best.get<double>());
  return text;
}

}  // namespace

struct Calls::Call {
  json id, progress_token;
  Question question;
  std::unique_ptr<Places::Place> place;
  int stopping = eventfd(0, EFD_CLOEXEC);  // readable once the call is to end
  std::atomic<bool> cancelled = false, answered = false, finished = false;
  std::thread thread;

  Call() {
    if (stopping < 0) throw RunError("no event can be made");
  }
  ~Call() {
    if (thread.joinable()) thread.join();
    close(stopping);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void cancel() {
    cancelled = true;
    eventfd_write(stopping, 1);
  }
};

Calls::~Calls() {
  const std::lock_guard lock(mutex_);
  for (const auto& call : calls_) call->cancel();
  calls_.clear();
}

void Calls::run(Call& call) const {
  int said = 0;
  const auto watch = [&](const std::string& line) {
    if (call.progress_token.is_null() || call.cancelled) return;
    send_(notification_line("notifications/progress", {{"progressToken", call.progress_token},
                                                       {"progress", ++said},
                                                       {"message", progress_text(line)}}));
  };
  Answer answer;
  try {
    if (!call.place->wait([&] { return call.cancelled.load(); })) return;
    answer = answer_to(call.question, program_, -1, call.stopping, watch);
  } catch (const std::exception& error) {
    answer = error_answer(500, error.what());
  }
  call.answered = true;  // once answered, the client may use the id again
  if (!call.cancelled) send_(result_line(call.id, result_of(answer)));
}

void Calls::start(const json& id, Question question, const json& progress_token) {
  const std::lock_guard lock(mutex_);
  forget_finished();
  auto call = std::make_unique<Call>();
  call->id = id;
  call->progress_token = progress_token;
  call->question = std::move(question);
  call->place = places_.take();
  if (!call->place)
    return send_(result_line(
        id, result_of(error_answer(429, "as many calls run and wait as may; try again later"))));
  call->thread = std::thread([this, one = call.get()] {
    run(*one);
    one->place.reset();
    one->finished = true;
  });
  calls_.push_back(std::move(call));
}

bool Calls::runs(const json& id) {
  const std::lock_guard lock(mutex_);
  forget_finished();
  return std::ranges::any_of(calls_,
                             [&](const auto& call) { return call->id == id && !call->answered; });
}

void Calls::cancel(const json& id) {
  const std::lock_guard lock(mutex_);
  for (const auto& call : calls_)
    if (call->id == id) call->cancel();
}

void Calls::forget_finished() {
  calls_.remove_if([](const auto& call) { return call->finished.load(); });
}

}  // namespace meshwright::tools::mcp
