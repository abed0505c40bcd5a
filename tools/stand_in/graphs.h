// Replaces CUDA graphs. Entries of a captured stream are kept, and a launch of the graph logs them.
#pragma once

#include "tools/stand_in/log.h"

namespace meshwright::stand_in {

// Keeps an entry whose stream is captured. Returns false if the stream is not captured, so that the
// entry goes to the log. A stream that waits for an event of a captured stream is captured from
// then on, as in CUDA.
bool captured(const Entry& entry);

}  // namespace meshwright::stand_in
