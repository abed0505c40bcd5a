// A group and a world of one process. Collectives copy or do nothing, and messages go to oneself.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"

namespace meshwright::exec {

std::unique_ptr<Communicator> make_self_communicator();
std::unique_ptr<World> make_self_world(const WorldOptions& options);

}  // namespace meshwright::exec
