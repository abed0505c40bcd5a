// Writes what a whole run without failures takes, as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/planner/objective.h"

namespace meshwright::tools {

// Returns the whole job without failures, with all steps one after the other. Returns nothing if
// the job gives neither a number of steps nor of tokens.
std::optional<WholeJob> steps_in_a_row(const Job& job, const Training& training,
                                       const Cluster& cluster, double step_time_s);
nlohmann::json whole_run_json(const std::optional<WholeJob>& whole);
// Returns a line about the start of the run, or "" if the start counts no time.
std::string start_text(const WholeJob& whole);
// Returns a line on the run, and that on its start. `unit` names what the run trains on: "tokens".
std::string whole_run_text(const WholeJob& whole, const char* unit = "tokens");

}  // namespace meshwright::tools
