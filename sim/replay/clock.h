// Keeps the time of a walk over Programs (models/program/walk.h): when every run of every rank
// began and ended, and for which other run it waited last. A run is an instruction in a task. Runs
// end by events, in order of time. flights.h decides how fast they go.
//
// A rank's host launches the kernels of the compute stream one after the other and runs ahead of
// the device as far as it can. A kernel begins when the device is ready and the host has launched
// it. A run of several kernels begins so late that none of its kernels would have to wait for its
// launch.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "models/core/units.h"
#include "models/program/walk.h"
#include "sim/replay/durations.h"
#include "sim/replay/flights.h"

namespace meshwright::sim {

struct RankTimes {
  std::vector<SimTime> begin, end;  // for each run; an end below 0 means that it has not ended
  // For each run, the run that ended last among those it waited for, or -1 if there is none.
  std::vector<int> previous;
};

class Clock {
 public:
  Clock(const Participants& participants, const std::vector<const StepTimes*>& times,
        double slowdown)
      : step_times_(times),
        ranks_(participants.scripts.size()),
        launched_(participants.scripts.size(), 0),
        flights_(participants.scripts.size(), slowdown) {
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
      const auto runs = static_cast<std::size_t>(participants.scripts[p]->runs());
      ranks_[p].begin.assign(runs, 0);
      ranks_[p].end.assign(runs, -1);
      ranks_[p].previous.assign(runs, -1);
      is_message_.emplace_back(runs, 0);
    }
  }

  bool done(int rank, int run) const { return times(rank).end[run] >= 0; }

  // Records that a rank is ready for a run. Until alone() or together() starts the run, its `begin`
  // holds the time at which the rank was ready.
  void reached(const Arrival& arrival, int previous_of_lane, std::span<const int> waited) {
    RankTimes& own = ranks_[arrival.rank];
    wait_for_messages(arrival, waited);
    int latest = previous_of_lane;
    SimTime ready = latest < 0 ? 0 : own.end[latest];
    for (int run : waited)
      if (own.end[run] > ready) ready = own.end[run], latest = run;
    own.begin[arrival.run] = ready;
    own.previous[arrival.run] = latest;
  }

  void alone(const Arrival& arrival) {
    const SimTime ready = ranks_[arrival.rank].begin[arrival.run];
    fly({&arrival, 1}, std::max(ready, launched(arrival)));
  }

  void together(std::span<const Arrival> arrivals) {
    SimTime begin = 0;
    for (const Arrival& arrival : arrivals)
      begin = std::max(begin, times(arrival.rank).begin[arrival.run]);
    fly(arrivals, begin);
  }

  int next_end() {
    if (woken_ == ended_.size()) {
      ended_.clear();
      woken_ = 0;
      for (const Flights::Member& member : flights_.next()) {
        end(member.rank, member.run);
        ended_.push_back(member.rank);
      }
    }
    return woken_ < ended_.size() ? ended_[woken_++] : -1;
  }

  const RankTimes& times(int rank) const { return ranks_[rank]; }

 private:
  // Delays the host until the messages that the run waits for have arrived. Frameworks that launch
  // kernels one by one wait for a message before they launch a kernel that needs it.
  void wait_for_messages(const Arrival& arrival, std::span<const int> waited) {
    const StepTimes& times = *step_times_[arrival.rank];
    if (!times.host_waits || times.kernels[arrival.step] == 0) return;
    const std::vector<char>& is_message = is_message_[arrival.rank];
    SimTime& host = launched_[arrival.rank];
    for (int run : waited)
      if (is_message[run]) host = std::max(host, ranks_[arrival.rank].end[run]);
  }

  // Returns the earliest begin of the run at which the host will have launched each of its kernels
  // when the kernel's turn comes, and advances the host's time by these launches. Returns 0 for a
  // run without launches.
  SimTime launched(const Arrival& arrival) {
    const StepTimes& times = *step_times_[arrival.rank];
    const int kernels = times.kernels[arrival.step];
    if (kernels == 0) return 0;
    SimTime& host = launched_[arrival.rank];
    const SimTime first = host + times.launch[arrival.step] / kernels;
    host += times.launch[arrival.step];
    const SimTime lasts = times.lasts[arrival.step];
    return std::max(first, host - (lasts - lasts / kernels));
  }

  void fly(std::span<const Arrival> arrivals, SimTime begin) {
    SimTime lasts = 0;
    members_.clear();
    for (const Arrival& arrival : arrivals) {
      const StepTimes& times = *step_times_[arrival.rank];
      ranks_[arrival.rank].begin[arrival.run] = begin;
      is_message_[arrival.rank][arrival.run] = times.message[arrival.step];
      lasts = std::max(lasts, times.lasts[arrival.step]);
      members_.push_back(
          {arrival.rank, arrival.run, &times.loads[arrival.step], times.kernels[arrival.step] > 0});
    }
    if (begin + lasts > flights_.now())
      flights_.add(members_, begin, lasts);
    else
      for (const Arrival& arrival : arrivals) end(arrival.rank, arrival.run);
  }

  void end(int rank, int run) { ranks_[rank].end[run] = flights_.now(); }

  std::vector<const StepTimes*> step_times_;  // durations of the steps of each rank
  std::vector<RankTimes> ranks_;
  // For each rank and run, whether the run has begun and is a message.
  std::vector<std::vector<char>> is_message_;
  std::vector<SimTime> launched_;  // by rank: when its host has launched the last kernel
  Flights flights_;
  std::vector<Flights::Member> members_;  // of the run that begins at present
  std::vector<int> ended_;                // ranks whose runs ended with the last event
  std::size_t woken_ = 0;                 // number of `ended_` that next_end() has returned
};

}  // namespace meshwright::sim
