// Reads the section `failures`: how often hosts fail, and how a run recovers.

#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright::job {

Keys failures_keys(Failures& failures) {
  using enum How;
  constexpr Range positive = by_reader(above_zero);
  constexpr Range not_negative = by_reader(at_least_zero);
  const auto rate = [&](FailureCause cause) {
    return &failures.per_host_hour[static_cast<std::size_t>(cause)];
  };
  return {{"hardware_per_host_hour", rate(FailureCause::hardware), not_negative, plain,
           "Llama 3: 1.68e-5 × GPUs", "a host is lost without notice"},
          {"software_per_host_hour", rate(FailureCause::software), not_negative, plain,
           "Llama 3: 2.64e-6 × GPUs", "processes end without notice; the hosts stay"},
          {"hang_per_host_hour", rate(FailureCause::hang), not_negative, plain,
           "Llama 3: 3.3e-7 × GPUs",
           "nothing progresses until a timeout, `hang_detection_s` later; the hosts stay"},
          {"hang_detection_s", &failures.hang_detection_s, not_negative, plain, "",
           "default: PyTorch's timeout of collectives over NCCL"},
          {"preemption_per_host_hour", rate(FailureCause::preemption), not_negative, plain,
           "0; at spot prices 3.06e-4",
           "a host is taken back `preemption_notice_s` after the notice. Default at spot prices: a "
           "fifth of the hosts in a month, where AWS's Spot Instance Advisor has its highest band "
           "begin"},
          {"preemption_notice_s", &failures.preemption_notice_s, not_negative, plain, "",
           "a checkpoint that is written within it loses nothing else. Default: EC2's"},
          {"maintenance_per_host_hour", rate(FailureCause::maintenance), not_negative, plain,
           "Llama 3: 2.21e-6 × GPUs",
           "a host is taken out as planned, `maintenance_notice_s` after "
           "the notice"},
          {"maintenance_notice_s", &failures.maintenance_notice_s, not_negative, plain, "",
           "the default is an assumption"},
          {"recovery", choice("recovery", recovery_names(), failures.recovery), any, plain, "",
           "see [Recovery](#recovery)"},
          {"restart_s", &failures.restart_s, positive, plain, "by `recovery`",
           "from all hosts being there to the first step: start, reading the state"},
          {"spares", &failures.spares, by_reader({.low = 0, .high = 1000}), plain, "by `recovery`",
           "hosts that stand by, paid for like the others; not with `recovery` `restart`"},
          {"replacement_s", &failures.replacement_s, not_negative, plain, "",
           "from the request for another host, when one is lost or the notice comes, to having "
           "it. The default is an assumption"},
          {"checkpoint_bytes_per_s", &failures.checkpoint_bytes_per_s, positive, plain, "",
           "of one host to the storage. Default: Llama 3's clusters, 2 TB/s for 2,048 hosts"}};
}

void read_failures(Fields fields, Job& job) {
  Failures& failures = job.cluster.failures.emplace();
  read_keys(fields, failures_keys(failures), job);
  auto& preemption = failures.per_host_hour[static_cast<std::size_t>(FailureCause::preemption)];
  if (!preemption && job.objective.price.kind == PriceKind::spot)
    preemption = spot_preemption_per_host_hour;
  if (failures.recovery == Recovery::restart && failures.spares.value_or(0) > 0)
    fields.fail("spares", "recovery 'restart' has no spare hosts; use \"recovery\": \"hot_spare\"");
  if (failures.recovery == Recovery::hot_spare && failures.spares == 0)
    fields.fail("spares",
                "0 leaves 'hot_spare' without a spare; use 1 or more, or \"recovery\": "
                "\"in_job\"");
  fields.done();
}

}  // namespace meshwright::job
