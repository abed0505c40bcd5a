// CUDA graphs: what a program asks of a captured stream is kept, and a launch of the graph does it.
#pragma once

#include "tools/stand_in/log.h"

namespace meshwright::stand_in {

// Keeps an entry whose stream is captured. Returns false if it is not: then it goes to the log.
// A stream that waits for an event of a captured stream is captured from then on, as CUDA has it.
bool captured(const Entry& entry);

}  // namespace meshwright::stand_in
