// Being asked to stop: SIGINT, SIGTERM and SIGUSR1 (what the launcher sends) set a flag that the
// training loop looks at between steps. A second one, later, ends the process at once (exit code
// 5).
#pragma once

namespace meshwright {

void watch_for_stop();  // from now on; once per process
bool stop_requested();

// For whoever waits for these signals by other means: from now on SIGINT and SIGTERM are held back,
// also while the process ends, which they would make look like a failure.
void hold_stop_signals();

}  // namespace meshwright
