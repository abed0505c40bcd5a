// The hosts of a run: of --hostfile, of SageMaker's environment, or this computer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/launch/mpirun.h"
#include "tools/options.h"
#include "tools/session/settle.h"

namespace meshwright {

// None: all ranks on this computer. InputError when the hosts are not those of the plan.
std::optional<RemoteHosts> remote_hosts(const Options& options, const Run& run);

// The first host of a SageMaker job, until mpirun can reach the others; where custom_mpi_options
// names another way in than SSH, at once. Says for whom it waits. RunError when one does not come
// within `seconds`.
void wait_for_hosts(const RemoteHosts& remote, const std::vector<std::string>& mpi_options,
                    double seconds);

// Any other host of a SageMaker job: mpirun of the first one starts ranks here; waits until they
// have ended. The exit code.
int wait_as_other_host(const SageMaker& container);

}  // namespace meshwright
