// Describes how often the hosts of a cluster fail, and how a run recovers. The step itself is
// predicted for healthy hosts. Faults that slow a step down are in faults.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::hwprofiles {

// The causes of failures. hardware: a host is lost without notice. software: processes end, but the
// hosts stay. hang: the run stands still until a timeout detects it, and the hosts stay.
// preemption: the provider takes a host back, with notice. maintenance: a host is taken out as
// planned, with notice.
enum class FailureCause : std::uint8_t { hardware, software, hang, preemption, maintenance };
constexpr std::size_t failure_cause_count = 5;

struct FailureCauseInfo {
  FailureCause cause;
  std::string_view name;
  bool loses_host;
  // The default failure rate, per hour and GPU of a host. It is from Llama 3 405B's 54 days on
  // 16,384 H100 (The Llama 3 Herd of Models, 2024, table 5 and section 3.3.4): 419 unexpected
  // interruptions, of which 54 were software bugs, 2 failures of software dependencies, 7 timeouts
  // of NCCL's watchdog, and the others failures of hosts and network. Another 47 were planned.
  double per_gpu_hour;
};
const std::vector<FailureCauseInfo>& failure_causes();  // in the order of the enumerators

// The rate at which a spot host is taken back, per hour: 20 % of spot hosts are within a month (730
// hours). The highest band of AWS's Spot Instance Advisor begins at this share ("> 20 %").
extern const double spot_preemption_per_host_hour;

// The way in which a run gets its state back after a failure. restart: the job is launched again
// and loads a checkpoint from storage. in_job: only the processes start again, and load from
// storage. hot_spare: like in_job, but spare hosts replace lost ones. peer_memory: other hosts hold
// copies of the state in their memory.
enum class Recovery : std::uint8_t { restart, in_job, hot_spare, peer_memory };

struct RecoveryInfo {
  Recovery recovery;
  std::string_view name;
  double restart_s;  // seconds, unless the job sets them
  int spares;        // spare hosts, unless the job sets them
};
const std::vector<RecoveryInfo>& recoveries();
const std::vector<std::string>& recovery_names();

struct Failures {
  // Failure rates of one host, per hour, by cause. Failures are independent of each other. Unset
  // means the rate of failure_causes() times the GPUs of a host.
  std::array<std::optional<double>, failure_cause_count> per_host_hour;
  double preemption_notice_s = 120;  // EC2's for spot instances
  double maintenance_notice_s = 3600;
  double hang_detection_s = 600;  // PyTorch's timeout of collectives over NCCL
  Recovery recovery = Recovery::restart;
  // Seconds from having all hosts to the first step. Unset means those of recoveries().
  std::optional<double> restart_s;
  // Spare hosts, which are paid for while they wait. Unset means those of recoveries().
  std::optional<int> spares;
  double replacement_s = 600;  // seconds from asking for another host to having it
  // Bandwidth between one host and the storage. The default is what Llama 3's clusters sustain: 2
  // TB/s for 2,048 hosts (section 3.3.1).
  double checkpoint_bytes_per_s = 1e9;

  double rate_per_host_hour(FailureCause cause, int gpus_of_host) const;
  double restart_time_s() const;
  int spare_hosts() const;
};

}  // namespace meshwright::hwprofiles
