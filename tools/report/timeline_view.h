// The timeline of a step as a picture in a page: a lane per rank and stream, drawn and zoomed by a
// script (timeline.js).
#pragma once

#include <string>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright {

// Of each rank.
std::vector<int> stages_of_ranks(const std::vector<Program>& stages);

// What the script draws, as JSON. Where there are more than `most_spans` entries, a span stands for
// all that a task does on a stream.
std::string timeline_data(const Timeline& timeline, const std::vector<Program>& stages,
                          std::size_t most_spans = 50'000);

// As an element of a page, the script with it.
std::string timeline_view(const Timeline& timeline, const std::vector<Program>& stages);

}  // namespace meshwright
