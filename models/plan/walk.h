// Walks the Programs of all stages in an order in which they can happen: every player (a rank, or
// one for all equal ranks of a stage) has lanes that run their instructions in list order, waits
// hold, and whatever needs several players (a message, a collective) happens when all have reached
// it. The walk knows no time; a visitor keeps what it wants to know. When nothing can go on and
// something is left, that is a deadlock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/core/index.h"
#include "models/plan/program.h"

namespace meshwright {

// streams: one lane per stream. inline_order: one lane for everything but sends and receives, in
// list order, as a thread does it that runs all by itself.
enum class LaneOrder : std::uint8_t { streams, inline_order };

// What several players do together: the instructions of one group kind and stream, or the messages
// from one virtual stage to another. Stages find theirs in one common list.
struct Contact {
  GroupKind group = GroupKind::none;
  Stream stream = Stream::compute;       // of a collective
  int from = -1, to = -1, channel = -1;  // of messages: virtual stages
  int sender = -1, receiver = -1;        // their stages
  bool is_message() const { return from >= 0; }
  bool operator==(const Contact&) const = default;
};
bool spans_stages(GroupKind kind);
// The ranks that meet there, meeting by meeting: every group, or every pair of sender and receiver.
std::vector<std::vector<int>> meetings_at(const Contact& contact, const Mesh& mesh);

// A Program with the instructions of every body sorted by lane.
class Script {
 public:
  struct Step {
    int instruction = 0;
    int contact = -1;
    int first_wait = 0, end_wait = 0;
    When when = When::always;
  };

  Script(const Program& program, LaneOrder order, std::vector<Contact>& contacts);

  const Program& program() const { return *program_; }
  int tasks() const { return static_cast<int>(program_->tasks.size()); }
  int lanes() const { return lanes_; }
  int runs() const { return run_base_.back(); }
  int run(int task, int instruction) const {
    return run_base_[static_cast<std::size_t>(task)] + instruction;
  }
  RunId run_id(int run) const;
  int body_of(int task) const { return program_->tasks[static_cast<std::size_t>(task)].body; }
  int first_step(int body, int lane) const {
    return first_step_[static_cast<std::size_t>(body * lanes_ + lane)];
  }
  int end_step(int body, int lane) const {
    return first_step_[static_cast<std::size_t>(body * lanes_ + lane + 1)];
  }
  const std::vector<Step>& steps() const { return steps_; }
  // The run that a step's wait names in this task, -1: none.
  int waited_run(int task, int wait) const {
    const Wait& named = waits_[static_cast<std::size_t>(wait)];
    if (is_plain_[static_cast<std::size_t>(wait)] != 0) return run(task, named.instruction);
    const RunId id = resolve_(task, named);
    return id.task < 0 ? -1 : run(id.task, id.instruction);
  }

 private:
  const Program* program_;
  WaitResolver resolve_;
  int lanes_ = 0;
  std::vector<Step> steps_;
  std::vector<Wait> waits_;
  std::vector<char> is_plain_;   // per wait: for an instruction of the same task that always runs
  std::vector<int> first_step_;  // [body * lanes + lane], one more at the end
  std::vector<int> run_base_;    // [task], one more at the end
};

// Who plays what: `communicator[player][contact]` is an index into `sizes`, -1 where the player
// needs nobody else.
struct Cast {
  std::vector<const Script*> scripts;  // of each player
  std::vector<std::vector<int>> communicator;
  std::vector<int> sizes;
};

// One player per stage. Collectives within a stage need nobody else.
Cast cast_of_stages(const std::vector<Script>& scripts, const std::vector<Contact>& contacts);
// One player per class of ranks: `of_rank` has the class of each rank. Ranks of one class are of
// one stage, and whatever one of them has to meet, the others meet players of the same classes.
Cast cast_of_classes(const std::vector<Script>& scripts, const std::vector<Contact>& contacts,
                     const Mesh& mesh, const std::vector<int>& of_rank);

struct Party {
  int player = 0, lane = 0, run = 0, step = 0;
};

// Calls of the visitor, for every run once:
//   bool done(int player, int run);           // has ended
//   void reached(const Party&, int previous_run_of_lane, std::span<const int> waited_runs);
//   void alone(const Party&);                 // needs nobody else
//   void together(std::span<const Party>);    // the last of them has reached it
// and, when nothing more can begin:
//   int next_end();                           // ends the next run under way; its player, -1: none
template <class Visitor>
class Walk {
 public:
  Walk(const Cast& cast, Visitor& visitor) : cast_(cast), visitor_(visitor) {
    players_.resize(cast.scripts.size());
    for (std::size_t p = 0; p < players_.size(); ++p) {
      players_[p].counts.assign(cast.communicator[p].size(), 0);
      const Script& script = *cast.scripts[p];
      for (int lane = 0; lane < script.lanes(); ++lane)
        enter_task(players_[p].lanes[at(lane)], script, lane, 0);
    }
    meetings_.resize(cast.sizes.size());
  }

  // Returns an empty text, or what everything that is left waits for.
  std::string run() {
    for (std::size_t p = 0; p < players_.size(); ++p) wake(static_cast<int>(p));
    do {
      begin_what_can();
      const int player = visitor_.next_end();
      if (player >= 0) wake(player);
    } while (!queue_.empty());
    return what_is_left();
  }

 private:
  struct Lane {
    int task = 0, step = 0, end = 0;
    int last_run = -1;
    int waits_for = -1;  // a run without which it cannot go on, -1: none known
    bool meeting = false;
  };
  struct Player {
    std::array<Lane, stream_count> lanes;
    std::vector<int> counts;  // per contact: how many this player has reached
    bool queued = false;
  };
  struct Meetings {
    std::vector<Party> parties;  // [sequence * size + arrival]
    std::vector<int> arrived;    // [sequence]
  };

  void begin_what_can() {
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      const int player = queue_[next];
      players_[at(player)].queued = false;
      const int lanes = cast_.scripts[at(player)]->lanes();
      for (bool ended = true; ended;) {
        ended = false;
        for (int lane = 0; lane < lanes; ++lane) ended = advance(player, lane) || ended;
      }
    }
    queue_.clear();
  }

  void wake(int player) {
    if (players_[at(player)].queued) return;
    players_[at(player)].queued = true;
    queue_.push_back(player);
  }

  static void enter_task(Lane& lane, const Script& script, int number, int task) {
    lane.task = task;
    while (lane.task < script.tasks()) {
      const int body = script.body_of(lane.task);
      lane.step = script.first_step(body, number);
      lane.end = script.end_step(body, number);
      if (lane.step < lane.end) return;
      ++lane.task;
    }
  }

  // Whether a run was over as soon as it began: other lanes may have waited for it.
  bool advance(int player, int number) {
    Lane& lane = players_[at(player)].lanes[at(number)];
    if (lane.waits_for >= 0 && !visitor_.done(player, lane.waits_for)) return false;
    lane.waits_for = -1;
    const Script& script = *cast_.scripts[at(player)];
    bool ended = false;
    while (lane.task < script.tasks() && !lane.meeting) {
      if (lane.step == lane.end) {
        enter_task(lane, script, number, lane.task + 1);
        continue;
      }
      const Script::Step& step = script.steps()[at(lane.step)];
      if (step.when == When::always || runs_now(script, lane.task, step)) {
        if (!try_run({player, number, script.run(lane.task, step.instruction), lane.step}, lane))
          return ended;
        ended = ended || visitor_.done(player, lane.last_run);
      }
      ++lane.step;
    }
    return ended;
  }

  static bool runs_now(const Script& script, int task, const Script::Step& step) {
    return runs(step.when, script.program().tasks[at(task)]);
  }

  bool must_wait_for(int player, int run, Lane& lane) {
    if (visitor_.done(player, run)) return false;
    lane.waits_for = run;
    return true;
  }

  // False while the run before or a wait is open. A party of an open meeting has run as far as its
  // lane is concerned: the lane goes on when the meeting is over.
  bool try_run(const Party& party, Lane& lane) {
    if (lane.last_run >= 0 && must_wait_for(party.player, lane.last_run, lane)) return false;
    const Script& script = *cast_.scripts[at(party.player)];
    const Script::Step& step = script.steps()[at(party.step)];
    waited_.clear();
    for (int wait = step.first_wait; wait < step.end_wait; ++wait) {
      const int run = script.waited_run(lane.task, wait);
      if (run < 0) continue;
      if (must_wait_for(party.player, run, lane)) return false;
      waited_.push_back(run);
    }
    visitor_.reached(party, lane.last_run, waited_);
    lane.last_run = party.run;
    const int communicator =
        step.contact < 0 ? -1 : cast_.communicator[at(party.player)][at(step.contact)];
    if (communicator < 0)
      visitor_.alone(party);
    else
      meet(party, lane, communicator, players_[at(party.player)].counts[at(step.contact)]++);
    return true;
  }

  void meet(const Party& party, Lane& lane, int communicator, int sequence) {
    Meetings& meetings = meetings_[at(communicator)];
    const std::size_t size = at(cast_.sizes[at(communicator)]);
    if (meetings.arrived.size() <= at(sequence)) {
      meetings.arrived.resize(at(sequence) + 1, 0);
      meetings.parties.resize((at(sequence) + 1) * size);
    }
    int& arrived = meetings.arrived[at(sequence)];
    Party* first = meetings.parties.data() + at(sequence) * size;
    first[arrived++] = party;
    lane.meeting = true;
    if (at(arrived) < size) return;
    visitor_.together(std::span<const Party>(first, size));
    for (const Party* each = first; each != first + size; ++each) {
      players_[at(each->player)].lanes[at(each->lane)].meeting = false;
      if (each->player != party.player) wake(each->player);
    }
  }

  std::string what_is_left() const {
    for (std::size_t p = 0; p < players_.size(); ++p) {
      const Script& script = *cast_.scripts[p];
      for (int number = 0; number < script.lanes(); ++number) {
        const Lane& lane = players_[p].lanes[at(number)];
        if (lane.task >= script.tasks() && !lane.meeting) continue;
        const RunId id = lane.meeting ? script.run_id(lane.last_run)
                                      : RunId{lane.task, script.steps()[at(lane.step)].instruction};
        return "stage " + std::to_string(script.program().stage) + " task " +
               std::to_string(id.task) + " body " + std::to_string(script.body_of(id.task)) +
               " instruction " + std::to_string(id.instruction) +
               (lane.meeting ? " waits for its peers" : " waits for another stream");
      }
    }
    return {};
  }

  const Cast& cast_;
  Visitor& visitor_;
  std::vector<Player> players_;
  std::vector<Meetings> meetings_;
  std::vector<int> queue_;
  std::vector<int> waited_;
};

}  // namespace meshwright
