// Writes what a recorded step of a training script takes, as JSON, as text, as a page and as a
// trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/report/html.h"
#include "tools/session/rehearsal.h"

namespace meshwright::tools {

// Return what the recorded step takes. Keys that `simulate` has too mean the same there, except
// two: here `instructions` counts recorded events, and `exposed_communication_s` is that of the
// first recorded rank. `today` is that of Options::today.
nlohmann::json recorded_step_json(const Rehearsed& all, int today);
std::string recorded_step_text(const Rehearsed& all, int today);

// Adds the answer, the parts of the step and its timeline to a page. Needs the spans.
void add_recorded_step(HtmlPage& page, const Recording& recording, const Rehearsed& all, int today);

// Returns a Chrome trace, which Perfetto opens, in the form of PyTorch's profiler: the streams of
// the recorded rank with its kernels, and the host, which works up to an operation's launch or
// waits. Needs the spans.
std::string recorded_trace(const Recording& recording, const Rehearsed& all);

}  // namespace meshwright::tools
