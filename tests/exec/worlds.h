// The world that this test program's cases share: `self`, or `mpi` where the program is run by
// mpirun (with shared memory, or without where the program is told so).
#pragma once

#include "exec/comm/communicator.h"
#include "models/core/error.h"

meshwright::exec::World& test_world();
