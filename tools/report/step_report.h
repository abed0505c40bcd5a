// Adds the part of a page about one simulated step: where its time goes, its timeline, and its
// memory.
#pragma once

#include <vector>

#include "models/program/timeline.h"
#include "sim/predict/breakdown.h"
#include "tools/report/html.h"

namespace meshwright::tools {

void add_step(HtmlPage& page, const Compiled& compiled, const Prediction& prediction,
              const std::vector<StageBreakdown>& stages, const Timeline& timeline);

}  // namespace meshwright::tools
