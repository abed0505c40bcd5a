// Being asked to stop: SIGINT, SIGTERM and SIGUSR1 (what the launcher sends) set a flag that the
// training loop looks at between steps.
#pragma once

namespace meshwright {

void watch_for_stop();  // from now on; once per process
bool stop_requested();

}  // namespace meshwright
