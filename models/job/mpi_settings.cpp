#include "models/job/mpi_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>

namespace meshwright::job {

namespace {

// MCA parameters that a job file may set. Most of them choose the transport, its interfaces and its
// messages. Those of the families below may be set too, with exceptions (`naming`).
constexpr std::array<std::string_view, 20> parameters = {"btl",
                                                         "pml",
                                                         "mtl",
                                                         "coll",
                                                         "osc",
                                                         "oob_tcp_if_include",
                                                         "oob_tcp_if_exclude",
                                                         "mpi_yield_when_idle",
                                                         "mpi_warn_on_fork",
                                                         "mpi_leave_pinned",
                                                         "mpi_leave_pinned_pipeline",
                                                         "mpi_preconnect_mpi",
                                                         "opal_warn_on_missing_libcuda",
                                                         "opal_cuda_support",
                                                         "orte_abort_on_non_zero_status",
                                                         "orte_base_help_aggregate",
                                                         "plm_rsh_no_tree_spawn",
                                                         "plm_rsh_num_concurrent",
                                                         "rmaps_base_oversubscribe",
                                                         "hwloc_base_binding_policy"};
constexpr std::array<std::string_view, 10> parameter_families = {
    "btl_tcp_", "btl_openib_", "btl_vader_", "btl_smcuda_", "btl_sm_",
    "pml_ob1_", "pml_ucx_",    "mtl_ofi_",   "coll_tuned_", "coll_hcoll_"};
// MCA parameters for the verbosity of frameworks that a job may choose or that start the ranks.
constexpr std::array<std::string_view, 10> verbosity = {
    "btl_base_verbose",  "pml_base_verbose", "mtl_base_verbose", "coll_base_verbose",
    "osc_base_verbose",  "oob_base_verbose", "plm_base_verbose", "rmaps_base_verbose",
    "odls_base_verbose", "ess_base_verbose"};

constexpr std::array<std::string_view, 11> variables = {"RDMAV_FORK_SAFE",
                                                        "RDMAV_HUGEPAGES_SAFE",
                                                        "CUDA_DEVICE_MAX_CONNECTIONS",
                                                        "CUDA_DEVICE_ORDER",
                                                        "CUDA_LAUNCH_BLOCKING",
                                                        "CUDA_VISIBLE_DEVICES",
                                                        "HWLOC_HIDE_ERRORS",
                                                        "TF_CPP_MIN_LOG_LEVEL",
                                                        "TOKENIZERS_PARALLELISM",
                                                        "LANG",
                                                        "LC_ALL"};
constexpr std::array<std::string_view, 9> variable_families = {
    "NCCL_", "FI_", "SMDEBUG_", "SMDDP_", "SMP_", "OMP_", "OPENBLAS_", "GOMP_", "HOROVOD_"};

// Parts of names that exclude a setting of the listed families. Such a setting reads, writes, loads
// or runs what its value names (NCCL_NET_PLUGIN, FI_PROVIDER_PATH, OMP_TOOL_LIBRARIES,
// coll_tuned_dynamic_rules_filename).
constexpr std::array<std::string_view, 14> naming = {
    "FILE",    "PATH", "PLUGIN", "LIB",  "DIR",  "AGENT",    "COMMAND",
    "PROGRAM", "TOOL", "SCRIPT", "DUMP", "LOAD", "TIMELINE", "AUTOTUNE_LOG"};

bool contains(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool in_family(std::span<const std::string_view> families, std::string_view name) {
  return std::ranges::any_of(families,
                             [&](std::string_view family) { return name.starts_with(family); });
}

bool names_something(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::ranges::any_of(
      naming, [&](std::string_view part) { return upper.find(part) != std::string::npos; });
}

}  // namespace

bool job_may_set_parameter(std::string_view name) {
  return contains(parameters, name) || contains(verbosity, name) ||
         (in_family(parameter_families, name) && !names_something(name));
}

bool job_may_set_variable(std::string_view name) {
  return contains(variables, name) ||
         (in_family(variable_families, name) && !names_something(name));
}

}  // namespace meshwright::job
