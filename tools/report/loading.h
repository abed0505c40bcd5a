// Writes whether loading the data keeps up with the step, as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/job/job.h"
#include "sim/predict/predict.h"

namespace meshwright::tools {

// Returns null if the job does not say what a sample costs.
nlohmann::json loading_json(const Job& job, const Plan& plan, const Cluster& cluster,
                            const Prediction& prediction);
// Returns one line, or "" if the job does not say what a sample costs.
std::string loading_text(const Job& job, const Plan& plan, const Cluster& cluster,
                         const Prediction& prediction);

}  // namespace meshwright::tools
