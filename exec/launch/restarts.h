// Starting a run again after a fault.
#pragma once

#include <functional>

namespace meshwright {

struct Restarts {
  int most = 0;
  double first_pause_s = 1;  // doubled each time: a host may need time to come back
  double longest_pause_s = 60;
};

// Calls run(restarts so far) until it ends with another exit code than 4 (the run failed), or has
// been restarted as often as allowed; returns its last exit code. Says so on standard error: `from`
// tells where a restart begins. SIGINT and SIGTERM end a pause with exit code 5.
int run_with_restarts(const Restarts& restarts, const std::function<int(int)>& run,
                      const std::function<const char*()>& from);

}  // namespace meshwright
