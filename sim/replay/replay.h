// Plays the Programs of all stages in simulated time: an event per instruction, streams in order,
// waits as written, equal ranks folded into one.
//
// Folding: a collective lasts as long as the slowest of the groups of its kind, which run it at the
// same time, and a message as long as the slowest between the same two stages. Therefore all ranks
// of a stage begin and end every instruction at the same instants, wherever they are placed, and
// one of them stands for all. With faults in the cluster, one rank stands for each class of equal
// ranks (classes.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

struct ReplayOptions {
  bool fold = true;  // false: every rank is played, which gives the same result more slowly
  // Whether to return the begin and end of every instruction of the ranks that are played.
  bool timeline = false;
};

// The times of one rank of a stage, as means over its ranks if they differ. `span` is the same for
// all stages: from the first forward of any stage to the last backward of any. With 1f1b, p equal
// stages, m micro-batches and free communication, the bubble is (p - 1) / (m + p - 1) of the span
// on each stage.
struct StageTimes {
  SimTime compute_busy = 0;  // time of compute, in the whole step
  // Idle time inside the span in which the compute stream waits neither for communication in flight
  // nor for a launch.
  SimTime bubble = 0;
  // Time in the whole step in which the compute stream waits for communication that is in flight: a
  // collective, a message, or a copy to or from the host.
  SimTime exposed_communication = 0;
  // Time in the whole step in which the compute stream waits for the host to launch its next
  // kernel.
  SimTime launch = 0;
  SimTime span = 0;
  // Divides exposed_communication by the group of the collective. Messages count as `pipeline`,
  // copies to and from the host as `none`.
  std::array<SimTime, group_kind_count> exposed_by{};
};

struct ReplayResult {
  SimTime step_time = 0;
  std::vector<StageTimes> stages;
  std::int64_t instructions = 0;                    // number of instructions played, after folding
  std::int64_t bytes_sent = 0, bytes_received = 0;  // bytes of messages in the whole cluster
  Timeline timeline;
};

// Simulates one step. `stages` holds the Programs of all stages of one job.
ReplayResult replay(const std::vector<Program>& stages, const Topology& topology,
                    const ReplayOptions& options = {});

}  // namespace meshwright::sim
