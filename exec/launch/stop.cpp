#include "exec/launch/stop.h"

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

#include "exec/launch/exit_codes.h"

namespace meshwright::exec {

namespace {
constexpr std::int64_t apart_ns = 200'000'000;

// The state of the signal handlers, which may use only variables such as these.
volatile std::sig_atomic_t requested = 0;
volatile std::int64_t first_ns = 0;
volatile std::sig_atomic_t code_of_end = stopped;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Sets the flag at the first request and ends the process at once at a second one. One key press
// may arrive twice (from the terminal and from the parent process), so requests within 0.2 s are
// one. Uses only calls that are safe in a signal handler.
void on_signal(int) {
  if (requested != 0 && now_ns() - first_ns > apart_ns) _exit(code_of_end);
  if (requested != 0) return;
  first_ns = now_ns();
  requested = 1;
}

void end_at_once(int) {
  constexpr char words[] = "stopped on request, before the first step\n";
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, words, sizeof words - 1);
  _exit(stopped);
}

void handle(std::initializer_list<int> signals, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (int signal : signals) sigaction(signal, &action, nullptr);
}
}  // namespace

void end_on_stop_signals() { handle({SIGINT, SIGTERM}, end_at_once); }

void watch_for_stop() { handle({SIGINT, SIGTERM, SIGUSR1}, on_signal); }

void have_last_word(int exit_code) { code_of_end = exit_code; }

void hold_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace meshwright::exec
