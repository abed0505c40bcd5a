// A settled job as a file of its own: every "auto" replaced, paths said from where it lies.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/job/job.h"

namespace meshwright {

// As it is said from `folder`.
nlohmann::json settled_job(Job job, const Plan& plan, const std::string& machine, int count,
                           const std::string& folder);

void write_job_file(Job job, const Plan& plan, const std::string& machine, int count,
                    const std::string& path);

}  // namespace meshwright
