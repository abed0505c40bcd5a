// Changes a job before it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright::job {

// Applies a `--set` text KEY=VALUE: writes the value at a dotted path of the job's JSON. Throws
// InputError, which begins with the name `file`, if the text has no such form or the path leads
// through a value that is no object.
void apply_override(nlohmann::json& job, const std::string& text, const std::string& file);

}  // namespace meshwright::job
