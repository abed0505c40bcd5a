#include "exec/launch/restarts.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "exec/launch/exit_codes.h"

namespace meshwright::exec {

namespace {

// Waits for this time. Returns false at once if SIGINT or SIGTERM asks to stop.
bool pause_for(double seconds) {
  sigset_t requests, before;
  sigemptyset(&requests);
  sigaddset(&requests, SIGINT);
  sigaddset(&requests, SIGTERM);
  sigprocmask(SIG_BLOCK, &requests, &before);
  const auto whole = static_cast<std::time_t>(seconds);
  const timespec time{whole,
                      static_cast<long>((seconds - static_cast<double>(whole)) * 1'000'000'000)};
  const bool asked = sigtimedwait(&requests, nullptr, &time) > 0;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return !asked;
}

}  // namespace

int run_with_restarts(const Restarts& restarts, const std::function<int(int)>& run,
                      const std::function<const char*()>& from) {
  double pause_s = restarts.first_pause_s;
  for (int done = 0;; ++done) {
    const int code = run(done);
    if (code != run_failed || restarts.most == 0) return code;
    if (done == restarts.most) {
      std::fprintf(stderr, "the run failed; gave up after %d restart%s\n", done,
                   done == 1 ? "" : "s");
      return code;
    }
    std::fprintf(stderr, "the run failed; restart %d of %d from %s in %g s\n", done + 1,
                 restarts.most, from(), pause_s);
    if (!pause_for(pause_s)) return stopped;
    pause_s = std::min(2 * pause_s, restarts.longest_pause_s);
  }
}

}  // namespace meshwright::exec
