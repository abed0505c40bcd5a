// Knows options of other programs, so that a message can name the right one.
#pragma once

#include <string>
#include <vector>

namespace meshwright::tools {

// Returns, in quotes, the option of `known` that `option` stands for: the same name with "_" for
// "-", or the counterpart of another program's option. If there is none but `known` has --set,
// returns the job's keys of this name as "'--set KEY=...'". Returns "" if there are none.
std::string option_meant(const std::string& option, const std::vector<std::string>& known);

}  // namespace meshwright::tools
