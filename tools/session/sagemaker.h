// Reads the environment variables that SageMaker sets in its containers.
#pragma once

#include <string>
#include <vector>

namespace meshwright::session {

// Holds the variables of the environment, unchanged. A variable that is not set is empty.
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
  std::vector<std::string> hosts;  // empty: not in such a container
  std::string current, interface, instance;
  int gpus = 0;
  bool model_parallel = false;

  bool is_first() const { return hosts.empty() || current == hosts.front(); }
};

// Returns the keys of the job that the environment sets, as arguments of --set:
// distribution.KEY=VALUE. Throws InputError if a variable is not a JSON object.
std::vector<std::string> launch_overrides(const SageMakerEnvironment& environment);

// Returns the hosts and GPUs that the variables describe, or an empty value outside a container.
// Throws InputError, which names the variable, if one is wrong.
SageMaker read_sagemaker(const SageMakerEnvironment& environment);

}  // namespace meshwright::session
