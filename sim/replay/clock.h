// The visitor of a walk that keeps the time: when every run of every player began and ended, and
// what it waited for last. Runs end by events, in order of time.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "models/core/error.h"
#include "models/core/units.h"
#include "models/plan/walk.h"
#include "sim/engine/event_queue.h"

namespace meshwright {

struct PlayerTimes {
  std::vector<SimTime> begin, end;  // per run; end < 0: has not begun
  std::vector<int> previous;  // per run: the one that ended last of those it waited for, -1: none
  std::vector<char> done;
};

class Clock {
 public:
  Clock(const Cast& cast, const std::vector<const std::vector<SimTime>*>& durations)
      : durations_(durations), players_(cast.scripts.size()) {
    for (std::size_t p = 0; p < players_.size(); ++p) {
      const auto runs = static_cast<std::size_t>(cast.scripts[p]->runs());
      players_[p].begin.assign(runs, 0);
      players_[p].end.assign(runs, -1);
      players_[p].done.assign(runs, 0);
      players_[p].previous.assign(runs, -1);
    }
  }

  bool done(int player, int run) const { return times(player).done[at(run)] != 0; }

  // Until others have come as well, `begin` is when this player was ready.
  void reached(const Party& party, int previous_of_lane, std::span<const int> waited) {
    PlayerTimes& own = players_[at(party.player)];
    int latest = previous_of_lane;
    SimTime ready = latest < 0 ? 0 : own.end[at(latest)];
    for (int run : waited)
      if (own.end[at(run)] > ready) ready = own.end[at(run)], latest = run;
    own.begin[at(party.run)] = ready;
    own.previous[at(party.run)] = latest;
  }

  void alone(const Party& party) { finish(party, players_[at(party.player)].begin[at(party.run)]); }

  void together(std::span<const Party> parties) {
    SimTime begin = 0;
    for (const Party& party : parties)
      begin = std::max(begin, times(party.player).begin[at(party.run)]);
    for (const Party& party : parties) finish(party, begin);
  }

  int next_end() {
    if (events_.empty()) return -1;
    const Event event = events_.pop();
    players_[at(event.a)].done[at(event.b)] = 1;
    return event.a;
  }

  const PlayerTimes& times(int player) const { return players_[at(player)]; }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void finish(const Party& party, SimTime begin) {
    PlayerTimes& own = players_[at(party.player)];
    const SimTime end = begin + (*durations_[at(party.player)])[at(party.step)];
    constexpr SimTime longest = 8'000'000'000'000'000'000;  // 92 days; one run more still fits
    if (end > longest) throw InputError("the step would take more than 92 days of simulated time");
    own.begin[at(party.run)] = begin;
    own.end[at(party.run)] = end;
    if (end == events_.now())
      own.done[at(party.run)] = 1;
    else
      events_.at(end, 0, party.player, party.run);
  }

  std::vector<const std::vector<SimTime>*> durations_;  // of each player's steps
  std::vector<PlayerTimes> players_;
  EventQueue events_;
};

}  // namespace meshwright
