// Models how a measured collective was started, and what that adds to the collective itself.
// nccl-tests start the next collective while the last one runs, so a slow start matters only if the
// collective is faster than its launches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/core/units.h"

namespace meshwright::sim {

enum class HarnessKind : std::uint8_t {
  many_processes,  // one process for each GPU, by MPI, as in training
  one_process,     // nccl-tests -t: one process with a thread for each GPU
  one_thread,      // nccl-tests -g: one thread launches on one GPU after the other
  framework        // torch.distributed, one call at a time
};
const std::vector<std::string>& harness_names();

struct Harness {
  HarnessKind kind = HarnessKind::many_processes;
  int year = 2025;  // year of the software
};

// Returns the time that a harness measures for a collective that takes `time`, with `gpus` GPUs on
// each host.
Seconds measured_by(const Harness& harness, Seconds time, int gpus);

}  // namespace meshwright::sim
