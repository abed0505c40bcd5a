// Plays the Programs of all stages in simulated time: an event per instruction, streams in order,
// waits as written, equal ranks folded into one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/plan/mesh.h"
#include "models/plan/plan.h"
#include "models/plan/program.h"
#include "models/plan/timeline.h"

namespace meshwright {

struct ReplayOptions {
  bool fold = true;       // false: every rank is played; the same result, slower
  bool timeline = false;  // keep every entry (of the folded representatives)
};

struct StageTimes {
  SimTime compute_busy = 0;  // compute stream at work
  SimTime bubble =
      0;  // idle inside [first forward, last backward], not waiting for a collective or the wire
  SimTime exposed_communication =
      0;             // compute stream waiting for a collective or for the wire of a send
  SimTime span = 0;  // first possible forward to last backward
};

struct ReplayResult {
  SimTime step_time = 0;
  std::vector<StageTimes> stages;
  std::int64_t instructions = 0;                    // events played, after folding
  std::int64_t bytes_sent = 0, bytes_received = 0;  // point to point, whole cluster
  Timeline timeline;
};

ReplayResult replay(const std::vector<Program>& stages, const Plan& plan, const Mesh& mesh,
                    const Topology& topology, const ReplayOptions& options = {});

}  // namespace meshwright
