// Makes all plans of a job's search space on one cluster, with their bounds and simulations.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/bounds.h"
#include "tests/catch.h"
#include "tests/sim/compiled.h"
#include "tests/sim/planner_jobs.h"

namespace meshwright::tests {

struct Planned {
  Planned(const nlohmann::json& value, const std::string& machine, int hosts)
      : job(read(value)),
        cluster(make_cluster(job.cluster, machine, hosts)),
        base(base_plan(job, machine_facts(machine))),
        space(enumerate(job, base, cluster.ranks())),
        candidates(space.candidates()),
        bounds(job.model, base, cluster) {}

  Prediction simulate(const Candidate& candidate) const {
    return predict(compiled_for(job.model, to_plan(candidate, base), cluster), cluster);
  }

  Prediction check_bounds(const Candidate& candidate) {
    const Prediction prediction = simulate(candidate);
    INFO(name(candidate));
    CHECK(bounds.time(candidate).step_time_s <= prediction.step_time_s);
    CHECK(bounds.pipeline_time(candidate) <= prediction.step_time_s);
    CHECK(bounds.memory(candidate).least_bytes <=
          static_cast<double>(prediction.peak_memory_bytes));
    return prediction;
  }

  std::string name(const Candidate& candidate) const {
    return cluster.machine.name + " x " + std::to_string(cluster.hosts) + " " +
           to_json(to_plan(candidate, base)).dump();
  }

  Job job;
  Cluster cluster;
  Plan base;
  Space space;
  std::vector<Candidate> candidates;
  BoundMaker bounds;
};

}  // namespace meshwright::tests
