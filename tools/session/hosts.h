// Finds the hosts of a run: those of --hostfile, those of SageMaker's environment, or this
// computer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/launch/mpirun.h"
#include "tools/session/settle.h"

namespace meshwright::session {

// Returns the hosts, or nothing if all ranks run on this computer. Throws InputError if the hosts
// do not match the plan: another number, too few slots, or more processes than GPUs in SageMaker.
std::optional<RemoteHosts> remote_hosts(const TrainRequest& how, const SageMaker& container,
                                        const Run& run);

// Waits until SSH can reach all hosts but the first, and notes for which hosts it waits. `train`
// and `launch` call it on the first host of a SageMaker job. Returns at once if options of mpirun
// name another agent than SSH. Throws RunError if a host cannot be reached within `seconds`.
void wait_for_hosts(const RemoteHosts& remote, const std::vector<std::string>& mpi_options,
                    double seconds, const Watch& watch);

// Waits on a host of a SageMaker job that is not the first, until the ranks that the first host's
// mpirun starts here have ended. Returns the exit code. Throws RunError if mpirun does not come
// within an hour, unless a stop is requested.
int wait_as_other_host(const SageMaker& container, const Watch& watch);

}  // namespace meshwright::session
