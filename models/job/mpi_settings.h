// Lists the settings of Open MPI and of the ranks' environment that a job file may make: single
// names, and families of names with exceptions. The exceptions are meant to exclude every setting
// that names a program, a library or a file. All settings that are not listed need
// --allow-mpi-options.
#pragma once

#include <string_view>

namespace meshwright::job {

// Returns whether a job file may set this MCA parameter.
bool job_may_set_parameter(std::string_view name);

// Returns whether a job file may set this environment variable. A word `-x NAME` without a value is
// not checked, because it passes on what the user who starts the run has set.
bool job_may_set_variable(std::string_view name);

}  // namespace meshwright::job
