// Writes the response of `advise`, as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/advise/ladder.h"
#include "sim/risk/whole_run.h"

namespace meshwright::tools {

struct Advice {
  std::vector<Ladder> ladders;
  // The following fields describe the rung to rent, which is the one at which the best ladder
  // stops.
  const Ladder* best = nullptr;  // of `ladders`; null: nothing fits
  std::optional<WholeRun> run;   // unset if nothing fails or the length is unknown
  std::string command;           // that plans and runs it
};

// advice_of() returns the advice. `asked` is the job's file and options as on a command line, and
// `profile` is " --profile FILE" or empty; the command line that runs the advice repeats both.
// `today` is that of Options::today.
Advice advice_of(const Job& job, const LadderOptions& options, const std::string& asked,
                 const std::string& profile);
nlohmann::json advice_json(const Job& job, const Advice& advice, int today);
std::string advice_text(const Job& job, const Advice& advice);

}  // namespace meshwright::tools
