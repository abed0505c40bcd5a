// A group of one process: collectives copy or do nothing, messages go to oneself.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"

namespace meshwright {

std::unique_ptr<Communicator> make_self_communicator();
std::unique_ptr<World> make_self_world(const WorldOptions& options);

}  // namespace meshwright
