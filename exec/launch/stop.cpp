#include "exec/launch/stop.h"

#include <csignal>
#include <initializer_list>

namespace meshwright {

namespace {
// The only way a signal handler can tell anybody anything.
volatile std::sig_atomic_t requested = 0;
}  // namespace

void watch_for_stop() {
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace meshwright
