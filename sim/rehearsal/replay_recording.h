// Replays a recorded step in simulated time, by the hosts and the streams of its ranks.
//
// The host works between events as long as in the recording, times a factor, and a driver's launch
// longer for each that it launches. It issues an event when it comes to it, and runs ahead of the
// device until it waits, or a stream's queue is full. All threads of the host are one timeline,
// because they wait for each other (the threads of PyTorch's backward pass). A stream runs in order
// what was issued to it. Work that shares links, or kernels that run beside a collective, is slowed
// as in a simulated step, and kernels of several streams at once share the GPU
// (sim/replay/flights.h).
//
// A message, or a collective, between ranks that were recorded begins when all of them are ready
// (sim/rehearsal/meetings.h). When other ranks are ready is not known; it begins when this one is.
// Messages that NCCL was given together run at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/rehearsal/price.h"

namespace meshwright::sim {

struct ReplayedStep {
  SimTime step_time = 0;
  // Time in which something of each class runs, whatever else does.
  std::array<SimTime, recorded_work_count> busy{};
  // Parts of the step, which sum to step_time: something computes; else something communicates;
  // else something is copied from or to the host; else a communication waits for another rank; else
  // the device is idle, and waits for the host.
  SimTime computing = 0, exposed_communication = 0, exposed_copies = 0, waiting = 0, idle = 0;
  SimTime host_working = 0;  // the host's own, without its waits
};

struct HostSpeed {
  double factor = 1;  // on the time that the host works between events
  // Time of the driver for a launch, in seconds, which a rehearsal's stand-in does not take.
  double launch_s = 0;
};

// One rank: what it did, and what price() returns for it.
struct PricedRecording {
  const Recording* recording = nullptr;
  std::vector<PricedEvent> events;
};

struct ReplayedRanks {
  std::vector<ReplayedStep> steps;  // by rank, in the order given
  // False if the ranks' messages and collectives do not fit each other. Then some or all of them
  // begin when the rank itself is ready, and the step may be too short.
  bool meet = true;
};

// A stretch of a stream on the device, or of the host, which works up to an event or waits after
// it.
struct RecordedSpan {
  enum class Lane : std::uint8_t { device, host_works, host_waits };
  Lane lane = Lane::device;
  int event = 0;  // index in the recording; as many as it has: the end of the step
  SimTime begin = 0, end = 0;
};

// Returns the third of steps that follow each other as in training, without a wait in between: its
// time is from the end of the second one to its own, when host and device are done with it.
// `overlap_slowdown` is that of the machine's kernels. Fills `spans`, if given, with what the first
// rank did in that time, from 0 to step_time, in order of the ends. Some belongs to the step before
// it or after it.
ReplayedRanks replay_recordings(const std::vector<PricedRecording>& ranks, double overlap_slowdown,
                                const HostSpeed& host = {},
                                std::vector<RecordedSpan>* spans = nullptr);

// Does so for one rank.
ReplayedStep replay_recording(const Recording& recording, const std::vector<PricedEvent>& priced,
                              double overlap_slowdown, const HostSpeed& host = {},
                              std::vector<RecordedSpan>* spans = nullptr);

}  // namespace meshwright::sim
