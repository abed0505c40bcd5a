// Marks are lines of standard error by which ranks tell the launcher how far they are. They begin
// with a control character, and the launcher takes them out of what it shows (watch.h). Only ranks
// that `train` has started itself write them.
#pragma once

#include <string_view>

namespace meshwright {

constexpr char mark_begin = '\x1e';  // ASCII's record separator, which no message contains
constexpr std::string_view mark_started = "started ", mark_met = "met", mark_ended = "ended ";

// Called by each rank first: the rank has been started.
void tell_started();
// Called by rank 0: all ranks have met, and each obeys a request to stop.
void tell_met();
// Called by rank 0: everything is saved and written, and the run ends with `exit_code`. Whatever
// happens while the ranks leave changes nothing.
void tell_ended(int exit_code);

}  // namespace meshwright
