// The clock of a host that the script has for itself: time in which a thread was ready and other
// programs had the cores does not count, so that a busy computer answers as a quiet one.
#pragma once

#include <cstdint>

namespace meshwright::stand_in {

// Returns nanoseconds since some moment, which never go back. Threads whose work is to be timed
// call it often: waits are known of threads that have called it before.
std::uint64_t host_ns();

}  // namespace meshwright::stand_in
