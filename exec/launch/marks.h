// Marks are lines of standard error by which ranks tell the launcher how far they are, and where
// they failed. They begin with a control character, and the launcher takes them out of what it
// shows (watch.h). Only ranks that `train` or `launch` has started write them. Scripts write theirs
// in Python (tell() in tools/python/meshwright/torch/handed_over.py).
#pragma once

#include <string_view>

namespace meshwright::exec {

constexpr char mark_begin = '\x1e';  // ASCII's record separator, which no message contains
constexpr std::string_view mark_started = "started ", mark_met = "met", mark_ended = "ended ",
                           mark_trace = "trace ";  // N and a line of where rank N failed

// Tells that this rank has been started. Each rank calls it first.
void tell_started();
// Tells that all ranks have met, and that each obeys a request to stop from now on. Rank 0 calls
// it.
void tell_met();
// Tells that everything is saved and written, and that the run ends with `exit_code`, whatever
// happens while the ranks leave. Rank 0 calls it.
void tell_ended(int exit_code);

}  // namespace meshwright::exec
