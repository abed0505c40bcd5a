// A group of one process on device memory: collectives copy, or do nothing, in order on a stream.
#pragma once

#include <memory>

#include "exec/comm/communicator.h"
#include "exec/core/stream_source.h"

namespace meshwright {

// Messages to oneself are copied when both ends have been posted, in order with the later one.
// `streams` outlives it.
std::unique_ptr<Communicator> make_device_self_communicator(StreamSource& streams);

}  // namespace meshwright
