#include "hwprofiles/failures.h"
#include "models/core/names_in.h"

#include <cmath>

namespace meshwright::hwprofiles {

namespace {

constexpr double llama_gpu_hours = 54.0 * 24 * 16384;

constexpr std::size_t index_of(FailureCause cause) { return static_cast<std::size_t>(cause); }

const RecoveryInfo& info_of(Recovery recovery) {
  return recoveries()[static_cast<std::size_t>(recovery)];
}

}  // namespace

const double spot_preemption_per_host_hour = -std::log(1 - 0.2) / 730;

const std::vector<FailureCauseInfo>& failure_causes() {
  static const std::vector<FailureCauseInfo> causes = {
      {FailureCause::hardware, "hardware", true, (419 - 54 - 2 - 7) / llama_gpu_hours},
      {FailureCause::software, "software", false, (54 + 2) / llama_gpu_hours},
      {FailureCause::hang, "hang", false, 7 / llama_gpu_hours},
      {FailureCause::preemption, "preemption", true, 0},
      {FailureCause::maintenance, "maintenance", true, 47 / llama_gpu_hours}};
  return causes;
}

// The restart times of `restart` and `peer_memory` are from AWS on checkpointless training with
// HyperPod (December 2025): 15 to 30 minutes or more from storage, and less than 2 minutes from
// peers. Those of `in_job` and `hot_spare` are assumptions.
const std::vector<RecoveryInfo>& recoveries() {
  static const std::vector<RecoveryInfo> rows = {{Recovery::restart, "restart", 900, 0},
                                                 {Recovery::in_job, "in_job", 300, 0},
                                                 {Recovery::hot_spare, "hot_spare", 300, 1},
                                                 {Recovery::peer_memory, "peer_memory", 120, 0}};
  return rows;
}

const std::vector<std::string>& recovery_names() {
  static const std::vector<std::string> names = names_in(recoveries());
  return names;
}

double Failures::rate_per_host_hour(FailureCause cause, int gpus_of_host) const {
  const std::optional<double>& given = per_host_hour[index_of(cause)];
  return given ? *given : failure_causes()[index_of(cause)].per_gpu_hour * gpus_of_host;
}

double Failures::restart_time_s() const { return restart_s.value_or(info_of(recovery).restart_s); }

int Failures::spare_hosts() const { return spares.value_or(info_of(recovery).spares); }

}  // namespace meshwright::hwprofiles
