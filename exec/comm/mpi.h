// Communicators over MPI. Ranks of one host share memory, so that collectives read the peers'
// arenas directly. Between hosts, or if memory cannot be shared, the same sums are made from
// messages.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"

namespace meshwright::exec {

// Returns a world that has initialised MPI. Its destructor finalises MPI, except while an exception
// is in flight. May be called once per process.
std::unique_ptr<World> make_mpi_world(const WorldOptions& options);

}  // namespace meshwright::exec
