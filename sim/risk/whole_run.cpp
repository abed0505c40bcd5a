#include "sim/risk/whole_run.h"

#include "hwprofiles/cores.h"

namespace meshwright::sim {

std::optional<WholeRun> whole_run(const Job& job, const Compiled& compiled, const Cluster& cluster,
                                  const Prediction& prediction) {
  const auto model = run_model(job, compiled, cluster, prediction);
  if (!model) return std::nullopt;
  RiskOptions options;
  options.threads = usable_cores();
  const RunRisk risk = risk_of(*model, options);
  return WholeRun{*model, risk, spare_worth(*model, risk, options)};
}

}  // namespace meshwright::sim
