// Reads the environment of SageMaker's containers (spec: launch keys, 1.3).
#pragma once

#include <string>
#include <vector>

namespace meshwright {

// The variables of the environment, unchanged. A variable that is not set is empty.
struct SageMakerEnvironment {
  std::string hosts;         // SM_HOSTS, a JSON list
  std::string current_host;  // SM_CURRENT_HOST
  std::string gpus;          // SM_NUM_GPUS
  std::string interface;     // SM_NETWORK_INTERFACE_NAME
  std::string instance;      // SM_CURRENT_INSTANCE_TYPE
  std::string parameters;    // SM_HP_MP_PARAMETERS, a JSON object
  std::string framework;     // SM_FRAMEWORK_PARAMS, a JSON object: sagemaker_mpi_...
};

struct SageMaker {
  std::vector<std::string> hosts;  // none: not in such a container
  std::string current, interface, instance;
  int gpus = 0;
  bool model_parallel = false;

  bool is_first() const { return hosts.empty() || current == hosts.front(); }
};

// Returns what the launch sets of the job, as arguments of --set. Its keys replace those of the job
// one by one, as in smp.init(). The result is the same in and outside a container.
std::vector<std::string> launch_overrides(const SageMakerEnvironment& environment);

// Throws InputError that names the variable if one is wrong.
SageMaker read_sagemaker(const SageMakerEnvironment& environment);

}  // namespace meshwright
