#include "exec/launch/stop.h"

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

#include "exec/launch/exit_codes.h"

namespace meshwright {

namespace {
constexpr std::int64_t apart_ns = 200'000'000;

// The only way a signal handler can tell anybody anything.
volatile std::sig_atomic_t requested = 0;
volatile std::int64_t first_ns = 0;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A second request ends the process at once. One key press may arrive twice (from the terminal and
// from whoever started us): what comes together is one request. Only calls that are safe here.
void on_signal(int) {
  if (requested != 0 && now_ns() - first_ns > apart_ns) _exit(stopped);
  if (requested != 0) return;
  first_ns = now_ns();
  requested = 1;
}
}  // namespace

void watch_for_stop() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

void hold_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace meshwright
