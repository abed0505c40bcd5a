// A plan and what is predicted of it, as JSON (the keys of the command line) and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/predict/breakdown.h"
#include "tools/report/text.h"

namespace meshwright {

nlohmann::json prediction_json(const Prediction& prediction);
// [low, high]: between them eight in ten steps would lie; null where no error is known.
nlohmann::json interval_json(const Prediction& prediction);
// {kind, region, usd_per_hour, as_of, source, stale}; null: no price. `today` as Options::today.
nlohmann::json price_json(const std::optional<Price>& price, int today);
// {usd, idle_usd, block_days}, null without a price.
nlohmann::json bill_json(const std::optional<Bill>& bill);
// "$1234"; of a capacity block also its days and what of it is idle; "no price".
std::string bill_text(const std::optional<Bill>& bill);
// What the framework takes that the job names in training.memory_of; null where it names none.
nlohmann::json framework_json(const Prediction& prediction);
// "peak 3.1 GiB of 15.8 GiB"; before it what a framework takes, where the job names one.
std::string peak_memory_text(const Plan& plan, const Prediction& prediction);
nlohmann::json peak_tensors_json(const Program& program);  // of one stage, largest first
nlohmann::json breakdown_json(const std::vector<StageBreakdown>& stages);
std::string prediction_text(const Model& model, const Compiled& compiled, const Cluster& cluster,
                            const Prediction& prediction, int today);
// "a failure every ..., a checkpoint every ...": of a prediction that has a goodput.
std::string goodput_text(const Prediction& prediction);
Table memory_table(const Prediction& prediction);  // a row per stage
// "ranks 16 = data 2 x tensor 2 x pipeline 4, 1f1b, 8 micro-batches of 2, zero 1, recompute
// selective"
std::string plan_text(const Plan& plan);
// What differs from the usual, such that no two plans of a search read alike: "p4 t2 d2 mb2 zero1".
std::string short_plan_text(const Plan& plan);

}  // namespace meshwright
