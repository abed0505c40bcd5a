// The exit codes of all commands.
#pragma once

namespace meshwright::exec {

enum ExitCode : int {
  done = 0,
  our_fault = 1,
  bad_input = 2,
  no_plan_fits = 3,
  run_failed = 4,
  stopped = 5
};

}  // namespace meshwright::exec
