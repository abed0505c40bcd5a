// The answer of `advise`: as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/advise/ladder.h"
#include "sim/risk/whole_run.h"

namespace meshwright {

struct Advice {
  std::vector<Ladder> ladders;
  // What follows is of the rung to rent, which is the one where the best ladder stops.
  const Ladder* best = nullptr;  // of `ladders`; null: nothing fits
  std::optional<WholeRun> run;   // where something fails
  std::string command;           // that plans and runs it
};

// `asked`: the job's file and options, as a command line has them; `profile`: " --profile FILE" or
// nothing, for `train`. `today` as Options::today.
Advice advice_of(const Job& job, const LadderOptions& options, const std::string& asked,
                 const std::string& profile);
nlohmann::json advice_json(const Job& job, const Advice& advice, int today);
std::string advice_text(const Job& job, const Advice& advice);

}  // namespace meshwright
