// A group of one process on device memory: collectives copy, or do nothing, in order on a stream.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"
#include "exec/core/stream_source.h"

namespace meshwright::exec {

// Returns the communicator of such a group. Messages to oneself are copied when both ends have been
// posted, on the stream of the later one. `streams` must outlive the communicator.
std::unique_ptr<Communicator> make_device_self_communicator(StreamSource& streams);

}  // namespace meshwright::exec
