// Replays a recorded step in simulated time, on the hosts and the streams of its ranks.
//
// Between two events the host works as long as in the recording, multiplied by a factor, and for
// each launch it takes some time of the driver in addition. It runs ahead of the device until an
// event makes it wait, or the queue of a stream is full. All threads of a host are one timeline,
// because they wait for each other (the threads of PyTorch's backward pass). A stream runs its
// events in the order in which they were issued. Communication that shares links, and kernels
// during a collective, are slowed down as in a simulated step. Kernels of several streams at once
// share the GPU (sim/replay/flights.h).
//
// A message, or a collective, between ranks that were recorded begins when all of them are ready
// (sim/rehearsal/meetings.h). Communication with ranks that were not recorded begins when the
// recorded rank is ready. Messages that NCCL was given together run at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/rehearsal/price.h"

namespace meshwright::sim {

struct ReplayedStep {
  SimTime step_time = 0;
  // Time in which at least one event of each class runs, whatever else runs. Communication that
  // waits for another rank does not count.
  std::array<SimTime, recorded_work_count> busy{};
  // Parts of the step, which sum to step_time. Each moment counts for the first that applies: the
  // device itself works (kernels, copies and fills in its memory); communication runs; a copy from
  // or to the host runs; communication waits for another rank; the device is idle and waits for the
  // host.
  SimTime computing = 0, exposed_communication = 0, exposed_copies = 0, waiting = 0, idle = 0;
  SimTime host_working = 0;  // time in which the host works, without its waits
};

struct HostSpeed {
  double factor = 1;  // factor on the time that the host works between events
  // Time of the driver for a launch, in seconds. It is missing in the recording, because no driver
  // launched the kernels then.
  double launch_s = 0;
};

// One rank: its recording, and the result of price() for it.
struct PricedRecording {
  const Recording* recording = nullptr;
  std::vector<PricedEvent> events;
};

struct ReplayedRanks {
  std::vector<ReplayedStep> steps;  // one for each rank, in the order given
  // False if the messages and collectives of the ranks do not match. Then some or all of them begin
  // when the rank itself is ready, and the predicted step may be too short.
  bool meet = true;
};

// A stretch of time in which an event runs on the device, or the host works up to an event, or
// waits at an event.
struct RecordedSpan {
  enum class Lane : std::uint8_t { device, host_works, host_waits };
  Lane lane = Lane::device;
  int event = 0;  // index in the recording; the number of events stands for the end of the step
  SimTime begin = 0, end = 0;
};

// Plays steps that follow each other as in training, and returns the third one. Its time is from
// the end of the second step to the end of the third, when host and device are done with it.
// `overlap_slowdown` is the constant of this name in the machine's profile. If `spans` is not null,
// it is filled with what the first rank did in that time, from 0 to step_time, in the order of the
// ends. Some of its events belong to the step before or after.
ReplayedRanks replay_recordings(const std::vector<PricedRecording>& ranks, double overlap_slowdown,
                                const HostSpeed& host = {},
                                std::vector<RecordedSpan>* spans = nullptr);

// Returns the third step of one rank, as replay_recordings() does.
ReplayedStep replay_recording(const Recording& recording, const std::vector<PricedEvent>& priced,
                              double overlap_slowdown, const HostSpeed& host = {},
                              std::vector<RecordedSpan>* spans = nullptr);

}  // namespace meshwright::sim
