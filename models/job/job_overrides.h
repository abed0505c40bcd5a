// Changes a job before it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright::job {

// Applies a `--set` text KEY=VALUE: writes the value at a dotted path of the job's JSON. Throws
// InputError, which begins with the name `file`, if the text has no such form or the path leads
// through a value that is no object.
void apply_override(nlohmann::json& job, const std::string& text, const std::string& file);

// Sets the degrees, the schedule, the sharding and the recomputation to "auto" where the job leaves
// them out, for commands that search plans. Offloading stays off, because it is for models that do
// not fit otherwise (search_until_fits()). SageMaker's `distribution` leaves nothing out: the
// library has a default for each of its keys.
void open_left_out(nlohmann::json& job);

}  // namespace meshwright::job
