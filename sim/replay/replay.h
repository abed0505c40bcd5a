// Plays the Programs of all stages in simulated time: an event per instruction, streams in order,
// waits as written, equal ranks folded into one.
//
// Folding: a collective lasts as long as the slowest of the groups of its kind, which run it at the
// same time, and a message as long as the slowest between the same two stages. Therefore all ranks
// of a stage begin and end everything at the same instants, wherever they are placed, and one of
// them stands for all. With faults in the cluster, one rank stands for each class of equal ranks
// (classes.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

struct ReplayOptions {
  bool fold = true;       // false: every rank is played; the same result, slower
  bool timeline = false;  // keep every entry (of the folded representatives)
};

// The times of one rank of a stage, as a mean over its ranks if they differ. `span` is the same for
// all stages: from the first forward of any stage to the last backward of any, so that equal stages
// with free communication have a bubble of (p - 1) / (m + p - 1) each.
struct StageTimes {
  SimTime compute_busy = 0;  // compute stream at work, whole step
  SimTime bubble = 0;        // idle inside the span, not waiting for a collective, wire or launch
  SimTime exposed_communication = 0;  // compute stream waiting for a collective or for the wire of
                                      // a send, whole step
  SimTime launch = 0;  // compute stream waiting for the host to launch its next kernel, whole step
  SimTime span = 0;
  // Divides exposed_communication by the group of the collective. Messages count as `pipeline`,
  // copies to and from the host as `none`.
  std::array<SimTime, group_kind_count> exposed_by{};
};

struct ReplayResult {
  SimTime step_time = 0;
  std::vector<StageTimes> stages;
  std::int64_t instructions = 0;                    // events played, after folding
  std::int64_t bytes_sent = 0, bytes_received = 0;  // point to point, whole cluster
  Timeline timeline;
};

// Simulates one step. `stages` holds the Programs of all stages of one job.
ReplayResult replay(const std::vector<Program>& stages, const Topology& topology,
                    const ReplayOptions& options = {});

}  // namespace meshwright::sim
