// Writes the HTML page of a run: its loss, the parts of a step's time, and the prediction next to
// the measurement.
#pragma once

#include <string>

#include "models/job/job.h"
#include "tools/session/text.h"
#include "tools/session/train.h"

namespace meshwright::tools {

// Holds what a page is made of. `ending` is the line that says how the run ended, `compared` the
// table of predicted and measured values, and `kinds` that of kinds of instructions.
struct TrainReport {
  const Job& job;
  const Chosen& chosen;
  const Prediction& prediction;
  const Outcome& outcome;
  std::string ending;
  Table compared, kinds;
};

// Returns the page as HTML.
std::string train_page(const TrainReport& report);

}  // namespace meshwright::tools
