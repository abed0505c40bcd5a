// Draws the timeline of a step as a picture in a page: a lane per rank and stream, drawn and zoomed
// by a script (timeline.js).
#pragma once

#include <string>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::tools {

// Returns the pipeline stage of each rank, by rank.
std::vector<int> stages_of_ranks(const std::vector<Program>& stages);

// Returns the data that the script draws, as JSON: a span per entry. If there are more than
// `most_spans` entries, a span covers everything that a task does on a stream, to keep the page
// small.
std::string timeline_data(const Timeline& timeline, const std::vector<Program>& stages,
                          std::size_t most_spans = 50'000);

// Returns the timeline as an element of a page, which includes the script.
std::string timeline_view(const Timeline& timeline, const std::vector<Program>& stages);

}  // namespace meshwright::tools
