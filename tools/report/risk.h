// Writes the prediction of a whole run under failures, as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/risk/risk.h"

namespace meshwright::tools {

nlohmann::json risk_json(const RunModel& model, const RunRisk& risk,
                         const std::optional<SpareWorth>& spare);
// Returns one or more lines, the first of which begins with "risk".
std::string risk_text(const RunModel& model, const RunRisk& risk,
                      const std::optional<SpareWorth>& spare);

}  // namespace meshwright::tools
