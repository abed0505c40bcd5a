#include "sim/validate/harness.h"

#include "models/core/enum_words.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

// Time in which one thread launches a collective on one GPU, with software before 2023 and from
// then on. It is the time of all-reduces of very few bytes on 8 GPUs, divided by 8, on hosts with
// software of 2021 (A100: 93 us, vtrain_allreduce_v100_a100; NCCL launched cooperatively) and of
// 2024 (A100 and H100: 42 us, H200: 31 us, nccl_azure_nd).
constexpr int launches_got_faster = 2023;
constexpr Seconds slow_launch = {11.5e-6}, fast_launch = {4.6e-6};

// Time that a call of torch.distributed adds. It was measured on 8 B200: between 32 KiB and 1 MiB,
// torch.distributed takes 48 to 51 us (nccl_p6_b200_mleng), and nccl-tests take 27 to 30 us.
constexpr Seconds framework_call = {21e-6};

}  // namespace

const std::vector<std::string>& harness_names() {
  static const std::vector<std::string> names = words_up_to<HarnessKind::framework>(
      {"many_processes", "one_process", "one_thread", "framework"});
  return names;
}

Seconds measured_by(const Harness& harness, Seconds time, int gpus) {
  if (harness.kind == HarnessKind::framework) return time + framework_call;
  if (harness.kind != HarnessKind::one_thread) return time;
  const Seconds launch = harness.year < launches_got_faster ? slow_launch : fast_launch;
  return std::max(time, launch * gpus);
}

}  // namespace meshwright::sim
