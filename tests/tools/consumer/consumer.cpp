// consumer JOB: prints the predicted step time of the best plan.
#include <cstdio>

#include <meshwright/hwprofiles/machine.h>
#include <meshwright/models/job/job.h>
#include <meshwright/sim/planner/clusters.h>
#include <meshwright/sim/planner/search.h>

int main(int, char** arguments) {
  meshwright::sim::SearchOptions options;
  options.load = meshwright::sim::load_known_machine;
  options.memory_margin = meshwright::sim::usual_memory_margin;
  const meshwright::job::Job job =
      meshwright::job::read_job(arguments[1], {}, meshwright::sim::machine_facts);
  const meshwright::sim::SearchResult result = meshwright::sim::search(job, options);
  std::printf("%.17g\n", result.plans.front().prediction.step_time_s);
}
