// A world that checks collectives before it runs them (`--check-collectives`). Before each
// collective, every member tells all others what it is about to do. If two disagree, the run fails
// with an error that names both sides, instead of hanging or mixing their data. This is slow.
// Point-to-point messages are not checked.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"

namespace meshwright::exec {

// Returns a world that checks the collectives of `world`, which must outlive it. Every rank calls
// it at the same time.
std::unique_ptr<World> make_checked_world(World& world);

}  // namespace meshwright::exec
