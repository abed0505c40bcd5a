// The collectives and messages of one group of ranks over MPI.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "exec/comm/communicator.h"
#include "exec/comm/mpi_call.h"
#include "exec/comm/shared_group.h"
#include "exec/comm/two_levels.h"

namespace meshwright::exec {

// Returns the communicator of the group `comm`, whose members have the world ranks `ranks`.
// `shared` is set if all members share memory. `levels` is null unless the group is a grid over
// several hosts. `deadline_s` belongs to the world, which may change it.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, std::span<const int> ranks,
                                                    std::optional<SharedGroup> shared,
                                                    const double& deadline_s,
                                                    std::unique_ptr<TwoLevels> levels);

}  // namespace meshwright::exec
