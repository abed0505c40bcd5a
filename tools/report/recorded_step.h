// Writes what a recorded step of a training script takes, as JSON, as text, as a page and as a
// trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/report/html.h"
#include "tools/session/rehearsal.h"

namespace meshwright::tools {

// Return what the recorded step takes. Many keys are those of `simulate`, but `instructions` counts
// recorded events, and `exposed_communication_s` is that of the first recorded rank. `today` is
// that of Options::today.
nlohmann::json recorded_step_json(const Rehearsed& all, int today);
std::string recorded_step_text(const Rehearsed& all, int today);

// Adds the prediction, the parts of the step and its timeline to a page. `all` must have kept its
// spans (RehearsalRequest::keeps_spans).
void add_recorded_step(HtmlPage& page, const Recording& recording, const Rehearsed& all, int today);

// Returns a Chrome trace in the form of PyTorch's profiler, which Perfetto opens. It has the
// streams of the first recorded rank with their kernels, and the host. `all` must have kept its
// spans.
std::string recorded_trace(const Recording& recording, const Rehearsed& all);

}  // namespace meshwright::tools
