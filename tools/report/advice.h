// Writes the response of `advise`, as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/advise/ladder.h"
#include "sim/advise/near_batch.h"
#include "sim/risk/whole_run.h"
#include "tools/session/elsewhere.h"

namespace meshwright::tools {

struct Advice {
  std::vector<Ladder> ladders;
  // The following fields describe the rung to rent, which is the one at which the best ladder
  // stops.
  const Ladder* best = nullptr;         // of `ladders`; null: nothing fits
  std::optional<NearBatch> near_batch;  // near the job's, and faster
  std::string shortfall;                // if nothing fits: by how much, and what would do
  std::optional<WholeRun> run;          // unset if nothing fails or the length is unknown
  std::vector<Elsewhere> elsewhere;     // the best plans of frameworks that cannot run this one
  std::string command;                  // that plans it and goes on from there
};

// advice_of() returns the advice. `request` is the one by which `job` was read. `asked` is the
// job's file and options as on a command line, and `profile` is " --profile FILE" or empty; the
// command line that runs the advice repeats both. `today` is that of Options::today.
Advice advice_of(const Job& job, const JobRequest& request, const LadderOptions& options,
                 const std::string& asked, const std::string& profile);
nlohmann::json near_batch_json(const std::optional<NearBatch>& batch);
std::string near_batch_text(const NearBatch& batch);
nlohmann::json advice_json(const Job& job, const Advice& advice, int today);
// Returns the ladder of a job on one machine. For several machines, returns one line for each of
// them, or, with `all`, all ladders.
std::string advice_text(const Job& job, const Advice& advice, bool all);

}  // namespace meshwright::tools
