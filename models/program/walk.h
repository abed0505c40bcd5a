// Walks the Programs of all stages in an order in which they can happen. The lanes of every rank
// run their instructions in list order, waits hold, and an instruction that needs several ranks (a
// message, a collective) happens when all of them have reached it. Equal ranks may be walked as
// one. The walk knows no times, but its visitor may compute them. If nothing can go on and
// something is left, the Programs have a deadlock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/program/program.h"

namespace meshwright::program {

// A lane is a queue of instructions that run in list order. streams: every stream is a lane.
// inline_order: sends and receives have lanes of their own, and all else is one lane, as for a
// thread that runs everything by itself.
enum class LaneOrder : std::uint8_t { streams, inline_order };

// A point at which several ranks wait for each other: the collectives of one group kind and stream,
// or the messages of one channel from one virtual stage to another. All stages use one common list
// of these points.
struct Rendezvous {
  GroupKind group = GroupKind::none;
  Stream stream = Stream::compute;       // of a collective
  int from = -1, to = -1, channel = -1;  // of messages: virtual stages, and the channel
  int sender = -1, receiver = -1;        // the stages of `from` and `to`
  bool is_message() const { return from >= 0; }
  bool operator==(const Rendezvous&) const = default;
};
bool spans_stages(GroupKind kind);
// Returns the sets of ranks that meet at a rendezvous: every group of its kind, or every pair of
// sender and receiver.
std::vector<std::vector<int>> meetings_at(const Rendezvous& rendezvous, const Mesh& mesh);

// A Program whose instructions are sorted by lane, body by body, and whose waits can be looked up
// fast. A step is an instruction in this order.
class Script {
 public:
  struct Step {
    int instruction = 0;
    int rendezvous = -1;
    int first_wait = 0, end_wait = 0;
    When when = When::always;
    bool receives = false;  // a recv
  };

  Script(const Program& program, LaneOrder order, std::vector<Rendezvous>& rendezvous_list);

  const Program& program() const { return *program_; }
  int tasks() const { return static_cast<int>(program_->tasks.size()); }
  int lanes() const { return lanes_; }
  int runs() const { return run_base_.back(); }
  int run(int task, int instruction) const { return run_base_[task] + instruction; }
  RunId run_id(int run) const;
  int body_of(int task) const { return program_->tasks[task].body; }
  int first_step(int body, int lane) const { return first_step_[body * lanes_ + lane]; }
  int end_step(int body, int lane) const { return first_step_[body * lanes_ + lane + 1]; }
  const std::vector<Step>& steps() const { return steps_; }
  // Returns the run that a step's wait names in this task, or -1 if there is nothing to wait for.
  int waited_run(int task, int wait) const {
    const Wait& named = waits_[wait];
    if (is_plain_[wait] != 0) return run(task, named.instruction);
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

// The ranks of a walk. `communicator[rank][rendezvous]` is an index into `sizes`, which holds how
// many ranks meet, or is -1 if the rank needs no other rank there.
struct Participants {
  std::vector<const Script*> scripts;  // of each rank
  std::vector<std::vector<int>> communicator;
  std::vector<int> sizes;
};

// Returns participants with one rank per stage. Collectives within a stage then need no other
// ranks. Checks of Programs use it.
Participants participants_of_stages(const std::vector<Script>& scripts,
                                    const std::vector<Rendezvous>& rendezvous_list);
// Returns participants with one rank for each class of equal ranks. `of_rank` has the class of each
// rank of the mesh. The ranks of one class must be of one stage, and at every rendezvous they must
// meet ranks of the same classes.
Participants participants_of_classes(const std::vector<Script>& scripts,
                                     const std::vector<Rendezvous>& rendezvous_list,
                                     const Mesh& mesh, const std::vector<int>& of_rank);

// The event that a rank has come to a step of one of its lanes.
struct Arrival {
  int rank = 0, lane = 0, run = 0, step = 0;
};

// The walk. The visitor has the functions below. For every run, the walk calls reached() once, and
// then alone() or together() once. It calls next_end() when nothing more can begin.
//   bool done(int rank, int run);           // returns whether the run has ended
//   void reached(const Arrival&, int previous_run_of_lane, std::span<const int> waited_runs);
//   void alone(const Arrival&);                 // the run needs no other rank
//   void together(std::span<const Arrival>);    // the last of these runs has been reached
//   int next_end();   // ends the next run in flight and returns its rank, or -1 if there is none
template <class Visitor>
class Walk {
 public:
  Walk(const Participants& participants, Visitor& visitor)
      : participants_(participants), visitor_(visitor) {
    ranks_.resize(participants.scripts.size());
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
      ranks_[p].counts.assign(participants.communicator[p].size(), {});
      const Script& script = *participants.scripts[p];
      for (int lane = 0; lane < script.lanes(); ++lane)
        enter_task(ranks_[p].lanes[lane], script, lane, 0);
    }
    meetings_.resize(participants.sizes.size());
  }

  // Walks to the end. Returns "" if everything ran. Otherwise returns where the first lane that
  // cannot go on is, and whether it waits for its peers or for another stream.
  std::string run() {
    for (std::size_t p = 0; p < ranks_.size(); ++p) wake(static_cast<int>(p));
    do {
      begin_what_can();
      const int rank = visitor_.next_end();
      if (rank >= 0) wake(rank);
    } while (!queue_.empty());
    return what_is_left();
  }

 private:
  struct Lane {
    int task = 0, step = 0, end = 0;
    int last_run = -1;
    int waits_for = -1;  // a run without which the lane cannot go on; -1: none known
    bool meeting = false;
  };
  struct RankState {
    std::array<Lane, stream_count> lanes;
    // Per rendezvous: how many sends or collectives [0], and how many receives [1], this rank has
    // reached there. Receives are counted apart because a stage may send to itself, and its n-th
    // receive must then meet its n-th send.
    std::vector<std::array<int, 2>> counts;
    bool queued = false;
  };
  struct Meetings {
    std::vector<Arrival> arrivals;  // [sequence * size + arrival]
    std::vector<int> arrived;       // [sequence]
  };

  void begin_what_can() {
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      const int rank = queue_[next];
      ranks_[rank].queued = false;
      const int lanes = participants_.scripts[rank]->lanes();
      for (bool ended = true; ended;) {
        ended = false;
        for (int lane = 0; lane < lanes; ++lane) ended = advance(rank, lane) || ended;
      }
    }
    queue_.clear();
  }

  void wake(int rank) {
    if (ranks_[rank].queued) return;
    ranks_[rank].queued = true;
    queue_.push_back(rank);
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

  // Runs the lane as far as it can go. Returns whether a run ended as soon as it began. Other lanes
  // may have waited for such a run, so they are then tried again.
  bool advance(int rank, int number) {
    Lane& lane = ranks_[rank].lanes[number];
    if (lane.waits_for >= 0 && !visitor_.done(rank, lane.waits_for)) return false;
    lane.waits_for = -1;
    const Script& script = *participants_.scripts[rank];
    bool ended = false;
    while (lane.task < script.tasks() && !lane.meeting) {
      if (lane.step == lane.end) {
        enter_task(lane, script, number, lane.task + 1);
        continue;
      }
      const Script::Step& step = script.steps()[lane.step];
      if (step.when == When::always || runs_now(script, lane.task, step)) {
        if (!try_run({rank, number, script.run(lane.task, step.instruction), lane.step}, lane))
          return ended;
        ended = ended || visitor_.done(rank, lane.last_run);
      }
      ++lane.step;
    }
    return ended;
  }

  static bool runs_now(const Script& script, int task, const Script::Step& step) {
    return runs(step.when, script.program().tasks[task]);
  }

  bool must_wait_for(int rank, int run, Lane& lane) {
    if (visitor_.done(rank, run)) return false;
    lane.waits_for = run;
    return true;
  }

  // Begins the run that the lane has reached. Returns false if the run cannot begin, because the
  // lane's run before it, or a run that it waits for, has not ended. A run that waits for other
  // ranks counts as begun, and the lane goes on when they have met.
  bool try_run(const Arrival& arrival, Lane& lane) {
    if (lane.last_run >= 0 && must_wait_for(arrival.rank, lane.last_run, lane)) return false;
    const Script& script = *participants_.scripts[arrival.rank];
    const Script::Step& step = script.steps()[arrival.step];
    waited_.clear();
    for (int wait = step.first_wait; wait < step.end_wait; ++wait) {
      const int run = script.waited_run(lane.task, wait);
      if (run < 0) continue;
      if (must_wait_for(arrival.rank, run, lane)) return false;
      waited_.push_back(run);
    }
    visitor_.reached(arrival, lane.last_run, waited_);
    lane.last_run = arrival.run;
    const int communicator =
        step.rendezvous < 0 ? -1 : participants_.communicator[arrival.rank][step.rendezvous];
    if (communicator < 0)
      visitor_.alone(arrival);
    else
      meet(arrival, lane, communicator,
           ranks_[arrival.rank].counts[step.rendezvous][step.receives ? 1 : 0]++);
    return true;
  }

  void meet(const Arrival& arrival, Lane& lane, int communicator, int sequence) {
    Meetings& meetings = meetings_[communicator];
    const std::size_t size = participants_.sizes[communicator];
    if (std::ssize(meetings.arrived) <= sequence) {
      meetings.arrived.resize(sequence + 1, 0);
      meetings.arrivals.resize((sequence + 1) * size);
    }
    int& arrived = meetings.arrived[sequence];
    Arrival* first = meetings.arrivals.data() + sequence * size;
    first[arrived++] = arrival;
    lane.meeting = true;
    if (std::cmp_less(arrived, size)) return;
    visitor_.together(std::span<const Arrival>(first, size));
    for (const Arrival* each = first; each != first + size; ++each) {
      ranks_[each->rank].lanes[each->lane].meeting = false;
      if (each->rank != arrival.rank) wake(each->rank);
    }
  }

  std::string what_is_left() const {
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
      const Script& script = *participants_.scripts[p];
      for (int number = 0; number < script.lanes(); ++number) {
        const Lane& lane = ranks_[p].lanes[number];
        if (lane.task >= script.tasks() && !lane.meeting) continue;
        const RunId id = lane.meeting ? script.run_id(lane.last_run)
                                      : RunId{lane.task, script.steps()[lane.step].instruction};
        return "stage " + std::to_string(script.program().stage) + " task " +
               std::to_string(id.task) + " body " + std::to_string(script.body_of(id.task)) +
               " instruction " + std::to_string(id.instruction) +
               (lane.meeting ? " waits for its peers" : " waits for another stream");
      }
    }
    return {};
  }

  const Participants& participants_;
  Visitor& visitor_;
  std::vector<RankState> ranks_;
  std::vector<Meetings> meetings_;
  std::vector<int> queue_;
  std::vector<int> waited_;
};

}  // namespace meshwright::program
