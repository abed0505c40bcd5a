// A clock of the host that runs as if the script had the computer for itself. Time in which its
// threads were ready but waited for a core does not count, so that a busy computer gives about the
// same times as a quiet one.
#pragma once

#include <cstdint>

namespace meshwright::stand_in {

// Returns nanoseconds since some moment, which never go back. Threads whose work is to be timed
// call it often, because the waits of a thread count only after its first call.
std::uint64_t host_ns();

}  // namespace meshwright::stand_in
