// How the hosts of a cluster fail now and then, and how a run goes on after it. The step itself is
// that of sound hosts; what makes it slower is in faults.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// hardware: a host is lost without notice. software: processes end, the hosts stay. hang: nothing
// goes on until a timeout says so, the hosts stay. preemption: a host is taken back, with notice.
// maintenance: a host is taken out as planned, with notice.
enum class FailureCause : std::uint8_t { hardware, software, hang, preemption, maintenance };
constexpr std::size_t failure_cause_count = 5;

struct FailureCauseInfo {
  FailureCause cause;
  std::string_view name;
  bool loses_host;
  // Where a job says nothing: per hour and GPU of a host. From Llama 3 405B's 54 days on 16,384
  // H100 (The Llama 3 Herd of Models, 2024, table 5 and section 3.3.4): 419 unexpected
  // interruptions, of which 54 were bugs of software, 2 of what it depends on and 7 timeouts of
  // NCCL's watchdog, the others of hosts and network; and 47 that were planned.
  double per_gpu_hour;
};
const std::vector<FailureCauseInfo>& failure_causes();  // in the order of the enumerators

// Of every hundred spot hosts twenty are taken back in a month (730 hours): where AWS's Spot
// Instance Advisor has its highest band begin ("> 20 %").
extern const double spot_preemption_per_host_hour;

// What brings the state back. restart: a new launch of the job, from storage. in_job: processes
// alone begin again, from storage. hot_spare: the same, and hosts stand by for those that are lost.
// peer_memory: copies of the state lie in other hosts' memory.
enum class Recovery : std::uint8_t { restart, in_job, hot_spare, peer_memory };

struct RecoveryInfo {
  Recovery recovery;
  std::string_view name;
  double restart_s;  // where a job says nothing
  int spares;        // the same
};
const std::vector<RecoveryInfo>& recoveries();
const std::vector<std::string>& recovery_names();

struct Failures {
  // Of one host, by cause; failures are independent of each other. None: failure_causes().
  std::array<std::optional<double>, failure_cause_count> per_host_hour;
  double preemption_notice_s = 120;  // EC2's, of spot instances
  double maintenance_notice_s = 3600;
  double hang_detection_s = 600;  // PyTorch's timeout of collectives over NCCL
  Recovery recovery = Recovery::restart;
  std::optional<double> restart_s;  // hosts are there -> first step. None: recoveries()
  std::optional<int> spares;        // hosts that stand by and are paid for. None: recoveries()
  double replacement_s = 600;       // from asking for another host to having it
  // Of one host to the storage. The default is what Llama 3's clusters sustain: 2 TB/s for 2,048
  // hosts (section 3.3.1).
  double checkpoint_bytes_per_s = 1e9;

  double rate_per_host_hour(FailureCause cause, int gpus_of_host) const;
  double restart_time_s() const;
  int spare_hosts() const;
};

}  // namespace meshwright
