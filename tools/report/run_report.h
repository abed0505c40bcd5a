// Adds the whole run of a job to a page: its time and cost, their ranges, and the effect of
// failures.
#pragma once

#include "models/job/job.h"
#include "sim/predict/predict.h"
#include "sim/risk/whole_run.h"
#include "tools/report/html.h"

namespace meshwright::tools {

// Adds nothing if the job gives neither a number of steps nor of tokens. `run` is the run under
// failures, if hosts fail.
void add_whole_run(HtmlPage& page, const Job& job, const Training& training, const Cluster& cluster,
                   const Prediction& prediction, const std::optional<WholeRun>& run);

}  // namespace meshwright::tools
