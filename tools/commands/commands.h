// The commands; each has a file of its name.
#pragma once

#include "tools/exit_codes.h"
#include "tools/options.h"

namespace meshwright {

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
