#include "tools/session/sagemaker.h"

#include <algorithm>

#include "exec/launch/hosts.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::session {

namespace {

std::vector<std::string> hosts_of(const std::string& text) {
  const json value = parse_json(text, "SM_HOSTS");
  std::vector<std::string> hosts;
  if (value.is_array())
    for (const json& host : value)
      if (host.is_string()) hosts.push_back(host.get<std::string>());
  if (hosts.empty() || hosts.size() != value.size())
    throw InputError("SM_HOSTS: expected a list of names, found " + text);
  for (auto host = hosts.begin(); host != hosts.end(); ++host) {
    if (!is_host_name(*host))
      throw InputError("SM_HOSTS: '" + *host + "' is no name or address of a host");
    if (std::find(hosts.begin(), host, *host) != host)
      throw InputError("SM_HOSTS: '" + *host + "' is named twice");
  }
  return hosts;
}

json object_of(const std::string& text, const std::string& variable) {
  if (text.empty()) return json::object();
  json value = parse_json(text, variable);
  if (!value.is_object()) throw InputError(variable + ": expected an object, found " + text);
  return value;
}

void set(std::vector<std::string>& overrides, const std::string& key, const json& value) {
  overrides.push_back("distribution." + key + "=" + value.dump());
}

int number_of(const std::string& text, const std::string& variable) {
  if (text.empty()) return 0;
  if (text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos)
    throw InputError(variable + ": expected a whole number, found '" + text + "'");
  return std::stoi(text);
}

}  // namespace

std::vector<std::string> launch_overrides(const SageMakerEnvironment& environment) {
  const json parameters = object_of(environment.parameters, "SM_HP_MP_PARAMETERS");
  const json framework = object_of(environment.framework, "SM_FRAMEWORK_PARAMS");
  std::vector<std::string> overrides;
  if (!parameters.empty()) {
    set(overrides, "smdistributed.modelparallel.enabled", true);
    for (const auto& [key, value] : parameters.items())
      set(overrides, "smdistributed.modelparallel.parameters." + key, value);
  }
  struct Row {
    const char* given;
    const char* key;
  };
  constexpr Row rows[] = {
      {"sagemaker_mpi_enabled", "mpi.enabled"},
      {"sagemaker_mpi_num_of_processes_per_host", "mpi.processes_per_host"},
      {"sagemaker_mpi_custom_mpi_options", "mpi.custom_mpi_options"},
      {"sagemaker_torch_distributed_enabled", "torch_distributed.enabled"},
  };
  for (const Row& row : rows)
    if (framework.contains(row.given)) set(overrides, row.key, framework[row.given]);
  return overrides;
}

SageMaker read_sagemaker(const SageMakerEnvironment& environment) {
  SageMaker result;
  if (environment.hosts.empty()) return result;
  result.hosts = hosts_of(environment.hosts);
  result.current = environment.current_host;
  if (result.hosts.size() == 1 && result.current.empty()) result.current = result.hosts.front();
  if (std::ranges::find(result.hosts, result.current) == result.hosts.end())
    throw InputError("SM_CURRENT_HOST: '" + result.current + "' is none of SM_HOSTS, " +
                     list_of(result.hosts, "and"));
  result.interface = environment.interface;
  result.instance = environment.instance;
  result.gpus = number_of(environment.gpus, "SM_NUM_GPUS");
  result.model_parallel = !object_of(environment.parameters, "SM_HP_MP_PARAMETERS").empty();
  return result;
}

}  // namespace meshwright::session
