// The timeline of a step as a picture in a page: a lane per rank and stream, drawn and zoomed by a
// script that is part of the page.
#pragma once

#include <string>
#include <vector>

#include "models/plan/program.h"
#include "models/plan/timeline.h"

namespace meshwright {

// Where there are more than `most_spans` entries, a span stands for all that a task does on a
// stream.
std::string timeline_view(const Timeline& timeline, const std::vector<Program>& stages,
                          const std::vector<int>& stage_of_rank, std::size_t most_spans = 50'000);

}  // namespace meshwright
