// Handles requests to stop. SIGINT, SIGTERM and SIGUSR1, which the launcher sends, set a flag that
// the training loop looks at between steps. A second signal, at least 0.2 s later, ends the process
// at once with exit code 5, or with that of have_last_word().
#pragma once

#include <exception>

namespace meshwright::exec {

// Thrown if work cannot continue because somebody asked to stop. The exit code is then 5.
struct StopRequested : std::exception {
  const char* what() const noexcept override { return "stopped on request"; }
};

// Lets SIGINT and SIGTERM end this process at once, with exit code 5, until watch_for_stop() or
// hold_stop_signals() is called. It is for the time in which nothing has begun that should be ended
// in order.
void end_on_stop_signals();

void watch_for_stop();  // from now on; once per process
bool stop_requested();
// Called when everything is printed and saved. From then on, a second signal ends this process with
// `exit_code` instead of 5.
void have_last_word(int exit_code);

// Holds SIGINT and SIGTERM back from now on, for callers that wait for these signals by other
// means. They are held back also while the process ends, because they would make that look like a
// failure.
void hold_stop_signals();

}  // namespace meshwright::exec
