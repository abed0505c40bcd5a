// Communicators over MPI. Ranks of one host share memory: collectives then read the peers' arenas
// directly; otherwise, and between hosts, the same sums are made from messages.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"

namespace meshwright {

// Initialises MPI, and finalises it when destroyed; once per process.
std::unique_ptr<World> make_mpi_world(const WorldOptions& options);

}  // namespace meshwright
