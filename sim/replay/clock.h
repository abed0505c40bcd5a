// The visitor of a walk that keeps the time: when every run of every player began and ended, and
// what it waited for last. Runs end by events, in order of time; how fast they go is the business
// of flights.h.
//
// A player's host launches the kernels of the compute stream one after the other and runs ahead of
// the device as far as it can: a kernel begins when the device is ready and the host has launched
// it. A run of several kernels lasts as long as they do; it begins so late that none of them would
// have to wait for its launch.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "models/core/index.h"
#include "models/core/units.h"
#include "models/plan/walk.h"
#include "sim/replay/durations.h"
#include "sim/replay/flights.h"

namespace meshwright {

struct PlayerTimes {
  std::vector<SimTime> begin, end;  // per run; end < 0: has not ended
  std::vector<int> previous;  // per run: the one that ended last of those it waited for, -1: none
};

class Clock {
 public:
  Clock(const Cast& cast, const std::vector<const StepTimes*>& times, double slowdown)
      : step_times_(times),
        players_(cast.scripts.size()),
        launched_(cast.scripts.size(), 0),
        flights_(cast.scripts.size(), slowdown) {
    for (std::size_t p = 0; p < players_.size(); ++p) {
      const auto runs = static_cast<std::size_t>(cast.scripts[p]->runs());
      players_[p].begin.assign(runs, 0);
      players_[p].end.assign(runs, -1);
      players_[p].previous.assign(runs, -1);
      is_message_.emplace_back(runs, 0);
    }
  }

  bool done(int player, int run) const { return times(player).end[at(run)] >= 0; }

  // Until others have come as well, `begin` is when this player was ready.
  void reached(const Party& party, int previous_of_lane, std::span<const int> waited) {
    PlayerTimes& own = players_[at(party.player)];
    wait_for_messages(party, waited);
    int latest = previous_of_lane;
    SimTime ready = latest < 0 ? 0 : own.end[at(latest)];
    for (int run : waited)
      if (own.end[at(run)] > ready) ready = own.end[at(run)], latest = run;
    own.begin[at(party.run)] = ready;
    own.previous[at(party.run)] = latest;
  }

  void alone(const Party& party) {
    const SimTime ready = players_[at(party.player)].begin[at(party.run)];
    fly({&party, 1}, std::max(ready, launched(party)));
  }

  void together(std::span<const Party> parties) {
    SimTime begin = 0;
    for (const Party& party : parties) {
      begin = std::max(begin, times(party.player).begin[at(party.run)]);
      is_message_[at(party.player)][at(party.run)] =
          step_times_[at(party.player)]->message[at(party.step)];
    }
    fly(parties, begin);
  }

  int next_end() {
    if (woken_ == ended_.size()) {
      ended_.clear();
      woken_ = 0;
      for (const Flights::Member& member : flights_.next()) {
        end(member.player, member.run);
        ended_.push_back(member.player);
      }
    }
    return woken_ < ended_.size() ? ended_[woken_++] : -1;
  }

  const PlayerTimes& times(int player) const { return players_[at(player)]; }

 private:
  // Frameworks that launch kernels one by one wait for a message before they launch what needs it.
  void wait_for_messages(const Party& party, std::span<const int> waited) {
    const StepTimes& times = *step_times_[at(party.player)];
    if (!times.host_waits || times.kernels[at(party.step)] == 0) return;
    const std::vector<char>& is_message = is_message_[at(party.player)];
    SimTime& host = launched_[at(party.player)];
    for (int run : waited)
      if (is_message[at(run)]) host = std::max(host, players_[at(party.player)].end[at(run)]);
  }

  // When the host has launched the run's kernels, such that each is there when its turn comes.
  SimTime launched(const Party& party) {
    const StepTimes& times = *step_times_[at(party.player)];
    const int kernels = times.kernels[at(party.step)];
    if (kernels == 0) return 0;
    SimTime& host = launched_[at(party.player)];
    const SimTime first = host + times.launch[at(party.step)] / kernels;
    host += times.launch[at(party.step)];
    const SimTime lasts = times.lasts[at(party.step)];
    return std::max(first, host - (lasts - lasts / kernels));
  }

  void fly(std::span<const Party> parties, SimTime begin) {
    SimTime lasts = 0;
    members_.clear();
    for (const Party& party : parties) {
      const StepTimes& times = *step_times_[at(party.player)];
      players_[at(party.player)].begin[at(party.run)] = begin;
      lasts = std::max(lasts, times.lasts[at(party.step)]);
      members_.push_back({party.player, party.run, &times.loads[at(party.step)],
                          times.kernels[at(party.step)] > 0});
    }
    if (begin + lasts > flights_.now())
      flights_.add(members_, begin, lasts);
    else
      for (const Party& party : parties) end(party.player, party.run);
  }

  void end(int player, int run) { players_[at(player)].end[at(run)] = flights_.now(); }

  std::vector<const StepTimes*> step_times_;  // of each player
  std::vector<PlayerTimes> players_;
  std::vector<std::vector<char>> is_message_;  // per player and run that has begun
  std::vector<SimTime> launched_;              // of each player's host: the last kernel's launch
  Flights flights_;
  std::vector<Flights::Member> members_;  // of the run that begins
  std::vector<int> ended_;                // players whose run has ended
  std::size_t woken_ = 0;                 // of them
};

}  // namespace meshwright
