// Returns the world of the running test: `self`, `mpi` if mpirun runs the program, or the world of
// a rank that runs in turn (on_ranks.h).
#pragma once

#include "exec/comm/communicator.h"
#include "models/core/error.h"

meshwright::exec::World& test_world();
