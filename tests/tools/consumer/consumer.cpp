// consumer JOB: the predicted step of the best plan.
#include <cstdio>

#include <meshwright/hwprofiles/machine.h>
#include <meshwright/models/job/job.h>
#include <meshwright/sim/planner/clusters.h>
#include <meshwright/sim/planner/search.h>

int main(int, char** arguments) {
  meshwright::SearchOptions options;
  options.load = meshwright::load_known_machine;
  options.memory_margin = meshwright::usual_memory_margin;
  const meshwright::Job job = meshwright::read_job(arguments[1], {}, meshwright::machine_facts);
  const meshwright::SearchResult result = meshwright::search(job, options);
  std::printf("%.17g\n", result.plans.front().prediction.step_time_s);
}
