// Replays a recorded step in simulated time, by the host and the streams of one rank.
//
// The host works between events as long as in the recording, times a factor, and a driver's launch
// longer for each that it launches. It issues an event when it comes to it, and runs ahead of the
// device until it waits, or a stream's queue is full. All threads of the host are one timeline,
// because they wait for each other (the threads of PyTorch's backward pass). A stream runs in order
// what was issued to it. Work that shares links, or kernels that run beside a collective, is slowed
// as in a simulated step (sim/replay/flights.h).
//
// A recording has one rank and does not show when the others are ready, so a collective begins when
// this rank is.
#pragma once

#include <array>
#include <vector>

#include "sim/rehearsal/price.h"

namespace meshwright::sim {

struct ReplayedStep {
  SimTime step_time = 0;
  // Time in which something of each class runs, whatever else does.
  std::array<SimTime, recorded_work_count> busy{};
  // Parts of the step, which sum to step_time: something computes; else something communicates;
  // else something is copied from or to the host; else the device is idle, and waits for the host.
  SimTime computing = 0, exposed_communication = 0, exposed_copies = 0, idle = 0;
  SimTime host_working = 0;  // the host's own, without its waits
};

// Time of the driver for a launch, in seconds, which a rehearsal's stand-in does not take.
// Profilers measure 5 to 8 us for a call of it, of which they themselves are a part.
constexpr double driver_launch_s = 4e-6;

struct HostSpeed {
  double factor = 1;  // on the time that the host works between events
  double launch_s = driver_launch_s;
};

// Returns the third of steps that follow each other as in training, without a wait in between: its
// time is from the end of the second one to its own, when host and device are done with it.
// `priced` is what price() returns, and `overlap_slowdown` that of the machine's kernels.
ReplayedStep replay_recording(const Recording& recording, const std::vector<PricedEvent>& priced,
                              double overlap_slowdown, const HostSpeed& host = {});

}  // namespace meshwright::sim
