// A world that looks before it leaps (`--check-collectives`): before each collective every member
// tells every other one what it is about to do, and two that disagree fail with both sides named
// instead of hanging or mixing their data. Slow; messages between stages are passed on.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"

namespace meshwright {

// `world` outlives it. Every rank makes one at the same time.
std::unique_ptr<World> make_checked_world(World& world);

}  // namespace meshwright
