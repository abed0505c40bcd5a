// Writes a resolved job as a file of its own: every "auto" has a value, and paths are relative to
// the file's folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/job/job.h"

namespace meshwright::session {

// Returns the resolved job as a file in `folder` would hold it.
nlohmann::json settled_job(Job job, const Plan& plan, const std::string& machine, int count,
                           const std::string& folder);

void write_job_file(Job job, const Plan& plan, const std::string& machine, int count,
                    const std::string& path);

}  // namespace meshwright::session
