// Reports what a rehearsal has to tell in addition to its log, a line for each thing, in the file
// that MESHWRIGHT_STAND_IN_NOTES names (tools/python/meshwright/rehearsal/notes.py). Every process
// that the script starts may add lines.
#pragma once

#include <string>

namespace meshwright::stand_in {

// Returns whether this process belongs to a script that is rehearsed.
bool is_rehearsed();
// Adds a line. Equal lines are shown once.
void note(const std::string& line);

}  // namespace meshwright::stand_in
