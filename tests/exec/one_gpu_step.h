// The three jobs of scenarios/gpu-*.json, compiled for one H100.
#pragma once

#include "models/job/job.h"
#include "models/program/program.h"
#include "sim/planner/clusters.h"
#include "tests/sim/compiled.h"

namespace meshwright::tests {

struct OneGpuJob {
  const char* file;
  double ceiling_s;  // of a modelled step: 1 % above the last value
};
inline constexpr OneGpuJob one_gpu_jobs[] = {{"scenarios/gpu-gpt2.json", 62e-3},
                                             {"scenarios/gpu-gpt2-xl.json", 185e-3},
                                             {"scenarios/gpu-llama-1b.json", 270e-3}};

inline Program program_of(const OneGpuJob& of) {
  const std::string machine = "p5.4xlarge";
  const Job job = read_job(std::string(MESHWRIGHT_SOURCE_DIR) + "/" + of.file,
                           {"cluster.machine=" + machine}, machine_facts);
  const Cluster cluster = make_cluster(job.cluster, machine, 1);
  const Plan plan = settle(job, cluster.ranks(), machine_facts(machine));
  return compiled_for(job.model, plan, cluster).stages.front();
}

}  // namespace meshwright::tests
