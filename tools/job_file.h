// A settled job as a file of its own: every "auto" replaced, paths said from where it lies.
#pragma once

#include <string>

#include "models/job/job.h"

namespace meshwright {

void write_job_file(Job job, const Plan& plan, const std::string& machine, int count,
                    const std::string& path);

}  // namespace meshwright
