// What a job file may set of Open MPI and in the environment of the ranks. The list is closed:
// nothing on it names a program, a library or a file. The rest needs --allow-mpi-options.
#pragma once

#include <string_view>

namespace meshwright {

// An MCA parameter.
bool job_may_set_parameter(std::string_view name);

// An environment variable. (A word `-x NAME` without a value is not asked about: it hands on what
// whoever starts the run has set.)
bool job_may_set_variable(std::string_view name);

}  // namespace meshwright
