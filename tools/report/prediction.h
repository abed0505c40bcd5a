// Writes a plan and its prediction, as JSON (with the keys of the command line) and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/predict/breakdown.h"
#include "tools/session/plan_text.h"
#include "tools/session/text.h"

namespace meshwright::tools {

nlohmann::json prediction_json(const Prediction& prediction);
// Returns [low, high], the seconds between which eight in ten steps would be. Returns null if no
// error is known.
nlohmann::json interval_json(const Prediction& prediction);
// Returns what a rung of `advise` says of its prediction, with the machine's price. `today` is that
// of Options::today.
nlohmann::json rung_prediction_json(const Prediction& prediction, int today);
// Returns {kind, region, usd_per_hour, as_of, source, stale}, or null without a price. `today` is
// the date in days since 1970-01-01 (Options::today), from which follows whether the price is
// stale.
nlohmann::json price_json(const std::optional<Price>& price, int today);
// Returns {usd, idle_usd, block_days}, or null without a price.
nlohmann::json bill_json(const std::optional<Bill>& bill);
// Returns "$1234", for a capacity block also its days and how much of it is idle, or "no price".
std::string bill_text(const std::optional<Bill>& bill);
// Returns {peak_memory_bytes, memory_limit_bytes} of the framework that training.memory_of names,
// or null if it names none.
nlohmann::json framework_json(const Prediction& prediction);
// Returns "peak 3.1 GiB of 15.8 GiB". If the job names a framework, its memory comes first.
std::string peak_memory_text(const Plan& plan, const Prediction& prediction);
// Returns the tensors at the predicted peak of one stage, largest first.
nlohmann::json peak_tensors_json(const Program& program, const StageMemory& stage);
// Returns what crosses between stages: [{from_stage, to_stage, bytes, tensors}].
nlohmann::json cuts_json(const std::vector<Program>& stages);
nlohmann::json breakdown_json(const std::vector<StageBreakdown>& stages);
std::string prediction_text(const Model& model, const Compiled& compiled, const Cluster& cluster,
                            const Prediction& prediction, int today);
// Returns "a failure every ..., a checkpoint every ...", for a prediction that has a goodput.
std::string goodput_text(const Prediction& prediction);
Table memory_table(const Prediction& prediction);  // a row per stage
}  // namespace meshwright::tools
