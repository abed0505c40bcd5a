#include "sim/planner/start_of_run.h"

#include "models/program/graph/graph.h"
#include "sim/planner/objective.h"

namespace meshwright::sim {

StartOfRun start_of_run(const Job& job, const Training& training, const Cluster& cluster) {
  const Failures assumed = cluster.failures.value_or(Failures{});
  StartOfRun start;
  if (!has_length(job)) return start;
  const bool is_rented =
      !cluster.machine.prices.empty() && job.objective.price.kind != PriceKind::own;
  if (is_rented) start.hosts_s = assumed.replacement_s;
  constexpr double bytes_of_published = 2;
  if (training.lora)
    start.weights_s =
        static_cast<double>(parameter_count(build_graph(job.model, job.plan.training))) *
        bytes_of_published / assumed.checkpoint_bytes_per_s;
  return start;
}

}  // namespace meshwright::sim
