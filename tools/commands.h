// The commands; each has a file of its name.
#pragma once

#include "tools/options.h"

namespace meshwright {

// Exit codes of every command.
enum ExitCode : int {
  done = 0,
  our_fault = 1,
  bad_input = 2,
  no_plan_fits = 3,
  run_failed = 4,
  stopped = 5
};

int run_plan(const Options& options);
int run_simulate(const Options& options);
int run_train(const Options& options);
int run_scale(const Options& options);
int run_validate(const Options& options);
int run_calibrate(const Options& options);
int run_compile(const Options& options);
int run_export(const Options& options);
int run_import(const Options& options);
int run_tokenize(const Options& options);
int run_list(const Options& options);

}  // namespace meshwright
