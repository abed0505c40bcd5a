// Changes a job before it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright::job {

// Applies a `--set` text KEY=VALUE: writes the value at a dotted path of the job's JSON. In a list,
// a part of the path is an index. Throws an InputError that begins with the name `file` if the text
// has no such form, if a list has no such index, or if the path leads through a value that is
// neither an object nor a list.
void apply_override(nlohmann::json& job, const std::string& text, const std::string& file);

// Sets the keys of `parallelism` that the planner may decide to "auto" if the job leaves them out,
// and training.recompute if the job says nothing about recomputation. Commands that search plans
// call it. Offloading stays off, because it is for models that do not fit otherwise
// (search_until_fits()). If the job gives stages by hand, the number of stages, the schedule and
// the virtual stages stay as they are. A job with SageMaker's `distribution` is not changed,
// because the library has a default for each of its keys.
void open_left_out(nlohmann::json& job);

}  // namespace meshwright::job
