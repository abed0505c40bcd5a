// Lets a device use communicators that reach host memory only. Data to send are copied to host
// memory first, and received data are copied to the device afterwards. Collectives and new messages
// wait for the device first. Several ranks can share one device.
#pragma once

#include <memory>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"

namespace meshwright::exec {

// Returns a world of the ranks of `host` whose memory is allocated by `backend`. Both arguments
// must outlive it.
std::unique_ptr<World> make_staged_world(World& host, Backend& backend);

}  // namespace meshwright::exec
