// Starts a run again after a fault.
#pragma once

#include <functional>

namespace meshwright::exec {

struct Restarts {
  int most = 0;
  double first_pause_s = 1;  // doubled each time: a host may need time to come back
  double longest_pause_s = 60;
};

// Calls run(restarts so far) until it returns an exit code other than 4 (the run failed), or until
// it has been restarted as often as allowed. Returns the last exit code. Before each restart it
// prints a line, in which `from` tells where the restart begins, and pauses. If SIGINT or SIGTERM
// comes during a pause, it returns 5 (stopped).
int run_with_restarts(const Restarts& restarts, const std::function<int(int)>& run,
                      const std::function<const char*()>& from);

}  // namespace meshwright::exec
