// A device's memory over communicators that reach host memory only: what is sent is copied to host
// memory first, what is received afterwards from there. Each call waits for the device, so that
// several ranks can share one.
#pragma once

#include <memory>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"

namespace meshwright {

// Memory is the backend's. Both arguments outlive it.
std::unique_ptr<World> make_staged_world(World& host, Backend& backend);

}  // namespace meshwright
