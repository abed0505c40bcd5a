// Has a clock of the host as if the script had the computer for itself. Time in which a thread was
// ready but other programs had the cores does not count, so that a busy computer gives the same
// times as a quiet one.
#pragma once

#include <cstdint>

namespace meshwright::stand_in {

// Returns nanoseconds since some moment, which never go back. Threads whose work is to be timed
// call it often, because the waits of a thread count only after its first call.
std::uint64_t host_ns();

}  // namespace meshwright::stand_in
