// Says which frameworks can run a plan, and how much slower the best plan of a usual framework is
// if that framework can run none of the plans that a search puts first.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/search.h"
#include "tools/session/requests.h"

namespace meshwright::session {

// Returns short names of the frameworks that can run a plan: "megatron bridge titan". If none can,
// returns "meshwright", for this engine.
std::string runs_in(const Plan& plan, const Model& model);

struct Elsewhere {
  std::string framework;
  std::optional<RankedPlan> plan;  // unset: `reason` says why
  std::string reason;              // why the framework has no plan for the job
  double slower = 0;               // step time / that of the first plan - 1
};

// Searches, for each usual framework that can run none of the `shown` plans, its best plan on the
// cluster of the first one. `request` is the one by which `job` was read. Leaves out frameworks
// that reject the job, or whose best plan would train something else. Returns nothing without
// `shown` plans, for CPUs, and for jobs that name a framework.
std::vector<Elsewhere> best_elsewhere(const JobRequest& request, const Job& job,
                                      std::span<const RankedPlan> shown,
                                      const SearchOptions& options);

nlohmann::json elsewhere_json(const std::vector<Elsewhere>& all);

// Returns one line for each framework: "best that megatron-lm can run: +13 % (2.060 s, p4 t1 d8
// mb1)", or "no plan for megatron-lm: " and the reason.
std::string elsewhere_text(const std::vector<Elsewhere>& all);

}  // namespace meshwright::session
