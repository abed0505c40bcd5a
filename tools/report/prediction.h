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
// Returns [low, high]: eight in ten steps would take between `low` and `high` seconds. Returns null
// if no error of predictions is known.
nlohmann::json interval_json(const Prediction& prediction);
// Returns the keys that a rung of `advise` has for its prediction and its price. `today` is that of
// Options::today.
nlohmann::json rung_prediction_json(const Prediction& prediction, int today);
// Returns {kind, region, usd_per_hour, as_of, source, stale}, or null without a price. `today` is
// the date in days since 1970-01-01 (Options::today), and decides whether the price is stale.
nlohmann::json price_json(const std::optional<Price>& price, int today);
// Returns {usd, idle_usd, block_days}. All three are null without a price.
nlohmann::json bill_json(const std::optional<Bill>& bill);
// Returns a text such as "$1234", for capacity blocks also with their days and the cost of idle
// hours, or "no price".
std::string bill_text(const std::optional<Bill>& bill);
// Returns {peak_memory_bytes, memory_limit_bytes} of the framework that training.memory_of names,
// or null if it names none.
nlohmann::json framework_json(const Prediction& prediction);
// Returns a text such as "peak 3.1 GiB of 15.8 GiB". If the job names a framework's memory, that
// memory comes first.
std::string peak_memory_text(const Plan& plan, const Prediction& prediction);
// Returns the tensors at the predicted peak of one stage, largest first.
nlohmann::json peak_tensors_json(const Program& program, const StageMemory& stage);
// Returns what crosses between stages, as a list of {from_stage, from_chunk, to_stage, to_chunk,
// bytes, tensors}.
nlohmann::json cuts_json(const std::vector<Program>& stages);
nlohmann::json breakdown_json(const std::vector<StageBreakdown>& stages);
std::string prediction_text(const Model& model, const Compiled& compiled, const Cluster& cluster,
                            const Prediction& prediction, int today);
// Returns a text such as "a failure every ..., a checkpoint every ...". The prediction must have a
// goodput.
std::string goodput_text(const Prediction& prediction);
Table memory_table(const Prediction& prediction);  // a row per stage
}  // namespace meshwright::tools
