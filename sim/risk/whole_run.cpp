#include "sim/risk/whole_run.h"

#include "hwprofiles/cores.h"

namespace meshwright::sim {

std::optional<WholeRun> whole_run(const Job& job, const Training& training, double checkpoint_bytes,
                                  const Cluster& cluster, const Prediction& prediction) {
  const auto model = run_model(job, training, checkpoint_bytes, cluster, prediction);
  if (!model) return std::nullopt;
  RiskOptions options;
  options.threads = usable_cores();
  const RunRisk risk = risk_of(*model, options);
  return WholeRun{*model, risk, spare_worth(*model, risk, options)};
}

std::optional<WholeRun> whole_run(const Job& job, const Compiled& compiled, const Cluster& cluster,
                                  const Prediction& prediction) {
  return whole_run(job, compiled.plan.training, checkpoint_bytes(compiled), cluster, prediction);
}

}  // namespace meshwright::sim
