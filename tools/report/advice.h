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
  // The fields below describe the rung to rent, at which the best ladder stops.
  const Ladder* best = nullptr;         // one of `ladders`; null: nothing fits
  std::optional<NearBatch> near_batch;  // a batch near the job's that is faster
  std::string shortfall;                // if nothing fits: by how much, and what would fit
  std::optional<WholeRun> run;          // unset if nothing fails or the length is unknown
  std::vector<Elsewhere> elsewhere;     // best plans of frameworks that cannot run this one
  std::string command;                  // command line that plans the rung and goes on
};

// advice_of() returns the advice. `request` is the one by which `job` was read. `asked` is the
// job's file and options as on a command line, and `profile` is " --profile FILE" or empty. They
// become parts of Advice::command. `today` is that of Options::today.
Advice advice_of(const Job& job, const JobRequest& request, const LadderOptions& options,
                 const std::string& asked, const std::string& profile);
nlohmann::json near_batch_json(const std::optional<NearBatch>& batch);
std::string near_batch_text(const NearBatch& batch);
nlohmann::json advice_json(const Job& job, const Advice& advice, int today);
// Returns the advice as text, with the ladder of the job on its machine. For several machines, it
// has one line for each of them, or, with `all`, all ladders.
std::string advice_text(const Job& job, const Advice& advice, bool all);

}  // namespace meshwright::tools
