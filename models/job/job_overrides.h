// Changes a job before it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright::job {

// Applies a `--set` text KEY=VALUE: writes the value at a dotted path of the job's JSON. In a list,
// a part of the path is an index. Throws InputError, which begins with the name `file`, if the text
// has no such form or the path leads through a value that is neither an object nor a list.
void apply_override(nlohmann::json& job, const std::string& text, const std::string& file);

// Sets the keys of `parallelism` that the planner may decide, and training.recompute, to "auto" if
// the job leaves them out. Commands that search plans call it. Offloading stays off, because it is
// for models that do not fit otherwise (search_until_fits()), and so does the number of stages if
// the job gives stages by hand. A job with SageMaker's `distribution` is not changed, because the
// library has a default for each of its keys.
void open_left_out(nlohmann::json& job);

}  // namespace meshwright::job
