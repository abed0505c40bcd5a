#include "tools/interop/target.h"

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

constexpr const InteropTarget* targets[] = {
    &megatron_lm_target, &megatron_bridge_target, &torchtitan_target, &deepspeed_target,
    &accelerate_target,  &sagemaker_target,       &hyperpod_target};

}  // namespace

Launch launch_of(const JobValues& job) {
  Launch launch;
  launch.name = job.job.name;
  launch.machine = job.machine;
  launch.hosts = job.hosts;
  launch.gpus_per_host = job.gpus_per_host;
  return launch;
}

std::span<const InteropTarget* const> all_targets() { return targets; }

const InteropTarget& interop_target(Framework framework) {
  for (const InteropTarget* target : targets)
    if (target->framework == framework) return *target;
  MESHWRIGHT_CHECK(false, "every framework has a target");
  return *targets[0];
}

}  // namespace meshwright::interop
