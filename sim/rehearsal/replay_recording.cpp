#include "sim/rehearsal/replay_recording.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "models/core/error.h"
#include "sim/rehearsal/meetings.h"

namespace meshwright::sim {

namespace {

// The third step is measured. The fourth one is played so that its begin overlaps with the end of
// the third.
constexpr int played_steps = 4, measured_step = 2;

// A host waits while a stream has this many events or more in its queue. CUDA documents no number.
// This one is usually reported.
constexpr std::size_t most_queued = 1024;

bool is_launched(const RecordedEvent& event) {
  return runs_on_device(event.what) && !event.graphed;
}

ReplayedStep difference(const ReplayedStep& after, const ReplayedStep& before) {
  ReplayedStep d;
  d.step_time = after.step_time - before.step_time;
  for (std::size_t use = 0; use < recorded_work_count; ++use)
    d.busy[use] = after.busy[use] - before.busy[use];
  d.computing = after.computing - before.computing;
  d.exposed_communication = after.exposed_communication - before.exposed_communication;
  d.exposed_copies = after.exposed_copies - before.exposed_copies;
  d.waiting = after.waiting - before.waiting;
  d.idle = after.idle - before.idle;
  return d;
}

// Holds what all ranks share: the simulated time, and communication that begins only when several
// ranks are ready.
class Stage {
 public:
  // The part of one rank in communication.
  struct Part {
    int rank, item;
    const PricedEvent* work;
  };

  Stage(std::size_t ranks, double slowdown, const Meetings& meetings)
      : flights_(ranks, slowdown, Flights::Kernels::shared), meetings_(meetings) {}

  Flights& flights() { return flights_; }
  SimTime now() const { return flights_.now(); }
  const Meetings& meetings() const { return meetings_; }

  void fly(const Part& part) {
    const Flights::Member member = member_of(part);
    flights_.add({&member, 1}, now(), part.work->lasts);
  }

  // Records that a rank is ready for a meeting of the given step. Returns all parts if this one is
  // the last, so that the communication begins, and no parts before.
  std::vector<Part> meet(int meeting, int step, const Part& part) {
    std::vector<Part>& parts = ready_[{meeting, step}];
    parts.push_back(part);
    if (std::cmp_less(parts.size(), meetings_.members(meeting))) return {};
    std::vector<Flights::Member> members;
    SimTime lasts = 0;
    for (const Part& each : parts) {
      members.push_back(member_of(each));
      lasts = std::max(lasts, each.work->lasts);
    }
    flights_.add(members, now(), lasts);
    std::vector<Part> all = std::move(parts);
    ready_.erase({meeting, step});
    return all;
  }

 private:
  static Flights::Member member_of(const Part& part) {
    return {part.rank, part.item, &part.work->loads, computes(part.work->use)};
  }

  Flights flights_;
  const Meetings& meetings_;
  std::map<std::pair<int, int>, std::vector<Part>> ready_;
};

// Plays the steps of one rank. An item is an event of a step, or the end of a step on the host.
// Items are numbered through all steps in the order in which the host comes to them.
class Player {
 public:
  Player(int place, const PricedRecording& rank, const HostSpeed& host, Stage& stage,
         std::vector<RecordedSpan>* spans)
      : place_(place),
        recording_(*rank.recording),
        priced_(rank.events),
        host_(host),
        spans_(spans),
        stage_(stage),
        streams_(static_cast<std::size_t>(recording_.streams)),
        items_of_step_(static_cast<int>(recording_.events.size()) + 1),
        at_once_(found_at_once(recording_)),
        done_(static_cast<std::size_t>(items_of_step_) * played_steps) {
    for (int& left : left_) left = items_of_step_;
  }

  static constexpr int host_run = -1;

  void begin() { go_on_with_host(); }

  // Handles the end of a run: the host has come to the next item, or an item has ended on the
  // device.
  void end(int run) {
    if (run == host_run)
      arrive();
    else
      end_on_device(run);
  }

  // Starts what can start now. Returns the parts of all ranks in the communication that begins by
  // this.
  std::vector<Stage::Part> go_on() {
    joined_.clear();
    start_what_can();
    if (host_is_blocked_ && !must_wait()) {
      note(RecordedSpan::Lane::host_waits, next_ - 1, host_since_);
      go_on_with_host();
    }
    return joined_;
  }

  // Records that communication for which this rank was ready has begun.
  void takes_off() { ++flying_; }

  // Attributes the time since the last call to what ran in it.
  void let_time_pass() {
    const SimTime passed = stage_.now() - now_;
    now_ = stage_.now();
    const auto runs = [&](RecordedWork use) { return running_[static_cast<std::size_t>(use)] > 0; };
    bool computing = false;
    for (std::size_t use = 0; use < recorded_work_count; ++use) {
      const auto work = static_cast<RecordedWork>(use);
      if (work == RecordedWork::communication ? flying_ == 0 : !runs(work)) continue;
      sums_.busy[use] += passed;
      computing = computing || computes(work);
    }
    (computing                           ? sums_.computing
     : flying_ > 0                       ? sums_.exposed_communication
     : runs(RecordedWork::copies)        ? sums_.exposed_copies
     : runs(RecordedWork::communication) ? sums_.waiting
                                         : sums_.idle) += passed;
  }

  // Cuts the spans to the time of the measured step, which then begins at 0.
  void cut_spans() {
    if (spans_ == nullptr) return;
    const SimTime begin = ends_[measured_step - 1].step_time;
    const SimTime length = ends_[measured_step].step_time - begin;
    for (RecordedSpan& span : *spans_) {
      span.begin = std::max<SimTime>(0, span.begin - begin);
      span.end = std::min(length, span.end - begin);
    }
    std::erase_if(*spans_, [](const RecordedSpan& span) { return span.begin >= span.end; });
  }

  bool is_measured() const { return steps_ended_ > measured_step; }
  ReplayedStep measured() const {
    return difference(ends_[measured_step], ends_[measured_step - 1]);
  }

 private:
  struct Stream {
    std::deque<int> items;  // items that are issued and not done
    int begun = 0;          // number of the first items that run at once
    int under_way = 0;      // number of these that are not done
    SimTime since = 0;      // when these began
  };

  // Adds a span that ends now.
  void note(RecordedSpan::Lane lane, int item, SimTime begin) {
    if (spans_ != nullptr && begin < stage_.now())
      spans_->push_back({lane, item % items_of_step_, begin, stage_.now()});
  }

  // Returns for each event how many events of its stream run at once from it on. They are those
  // that NCCL was given together.
  static std::vector<int> found_at_once(const Recording& recording) {
    std::vector<int> counts(recording.events.size(), 1);
    // By stream: the first event of the last group that runs at once.
    std::map<int, std::size_t> first;
    for (std::size_t i = 0; i < recording.events.size(); ++i) {
      const RecordedEvent& event = recording.events[i];
      if (event.what == Recorded::host_waits) continue;
      const auto before = first.find(event.stream);
      const bool joins = before != first.end() && event.together != 0 &&
                         recording.events[before->second].together == event.together;
      if (joins)
        ++counts[before->second];
      else
        first[event.stream] = i;
    }
    return counts;
  }

  bool ends_step(int item) const { return item % items_of_step_ == items_of_step_ - 1; }
  std::size_t place_in_step(int item) const {
    return static_cast<std::size_t>(item % items_of_step_);
  }
  const RecordedEvent& event(int item) const { return recording_.events[place_in_step(item)]; }
  const PricedEvent& priced(int item) const { return priced_[place_in_step(item)]; }
  double at_s(int item) const {
    return ends_step(item) ? recording_.step_host_s : event(item).at_s;
  }

  // Lets the host work until the next item. Threads may have recorded their events out of order, so
  // the time between two items is at least 0.
  void go_on_with_host() {
    host_is_blocked_ = false;
    host_since_ = stage_.now();
    if (next_ == items_of_step_ * played_steps) return;
    const double before = next_ % items_of_step_ == 0 ? 0 : at_s(next_ - 1);
    double work = std::max(0.0, at_s(next_) - before) * host_.factor;
    if (!ends_step(next_) && is_launched(event(next_))) work += host_.launch_s;
    const Flights::Member member{place_, host_run, &no_loads_, false};
    stage_.flights().add({&member, 1}, stage_.now(), to_sim_time({work}));
  }

  // Issues the item that the host has reached.
  void arrive() {
    const int item = next_++;
    note(RecordedSpan::Lane::host_works, item, host_since_);
    host_since_ = stage_.now();
    if (ends_step(item)) {
      finish(item);
    } else if (event(item).what == Recorded::host_waits) {
      waited_ = item;
      target_ = event(item).host_waits_for == HostWait::event ? last_record(event(item).event) : -1;
      finish(item);
    } else {
      issue(item);
      if (event(item).waits) waited_ = target_ = item;
    }
    host_is_blocked_ = true;  // until go_on() finds that the host need not wait
  }

  void issue(int item) {
    const RecordedEvent& issued = event(item);
    if (issued.what == Recorded::wait) wait_for_[item] = last_record(issued.event);
    if (issued.what == Recorded::record) records_[issued.event] = item;
    streams_[static_cast<std::size_t>(issued.stream)].items.push_back(item);
  }

  // Returns the item that last marked the event, or -1 if none did, so that there is nothing to
  // wait for.
  int last_record(std::int64_t event) const {
    const auto found = records_.find(event);
    return found == records_.end() ? -1 : found->second;
  }

  bool is_done(int item) const { return item < 0 || done_[static_cast<std::size_t>(item)]; }

  // Returns whether the host still has to wait, for room in a queue or because of the last item
  // that made it wait.
  bool must_wait() {
    if (std::ranges::any_of(streams_,
                            [](const Stream& s) { return s.items.size() >= most_queued; }))
      return true;
    if (waited_ < 0) return false;
    const RecordedEvent& by = event(waited_);
    bool waits = !is_done(target_);
    if (by.what == Recorded::host_waits && by.host_waits_for == HostWait::device)
      waits = std::ranges::any_of(streams_, [](const Stream& s) { return !s.items.empty(); });
    if (by.what == Recorded::host_waits && by.host_waits_for == HostWait::stream)
      waits = !streams_[static_cast<std::size_t>(by.stream)].items.empty();
    if (!waits) waited_ = target_ = -1;
    return waits;
  }

  void start_what_can() {
    for (bool again = true; again;) {
      again = false;
      for (Stream& stream : streams_)
        while (stream.begun == 0 && !stream.items.empty() && start(stream)) again = true;
    }
  }

  // Begins the first item of an idle stream. Returns false if the item has to wait.
  bool start(Stream& stream) {
    const int item = stream.items.front();
    const Recorded what = event(item).what;
    if (what == Recorded::wait && !is_done(wait_for_.at(item))) return false;
    if (!runs_on_device(what)) {
      stream.items.pop_front();
      wait_for_.erase(item);
      finish(item);
      return true;
    }
    const int at_once = at_once_[place_in_step(item)];
    if (std::cmp_less(stream.items.size(), at_once)) return false;
    stream.begun = stream.under_way = at_once;
    stream.since = stage_.now();
    for (int i = 0; i < at_once; ++i) run(stream.items[static_cast<std::size_t>(i)]);
    return true;
  }

  void run(int item) {
    const PricedEvent& work = priced(item);
    ++running_[static_cast<std::size_t>(work.use)];
    const int meeting = stage_.meetings().of(static_cast<std::size_t>(place_), place_in_step(item));
    if (meeting >= 0) {
      for (const Stage::Part& part :
           stage_.meet(meeting, item / items_of_step_, {place_, item, &work}))
        joined_.push_back(part);
      return;
    }
    stage_.fly({place_, item, &work});
    if (work.use == RecordedWork::communication) takes_off();
  }

  void end_on_device(int item) {
    Stream& stream = streams_[static_cast<std::size_t>(event(item).stream)];
    note(RecordedSpan::Lane::device, item, stream.since);
    --running_[static_cast<std::size_t>(priced(item).use)];
    if (priced(item).use == RecordedWork::communication) --flying_;
    if (--stream.under_way > 0) return;
    for (; stream.begun > 0; --stream.begun) {
      finish(stream.items.front());
      stream.items.pop_front();
    }
  }

  void finish(int item) {
    done_[static_cast<std::size_t>(item)] = true;
    --left_[static_cast<std::size_t>(item / items_of_step_)];
    while (steps_ended_ < played_steps && left_[static_cast<std::size_t>(steps_ended_)] == 0) {
      sums_.step_time = stage_.now();
      ends_[static_cast<std::size_t>(steps_ended_++)] = sums_;
    }
  }

  int place_;  // index among the ranks that are played
  const Recording& recording_;
  const std::vector<PricedEvent>& priced_;
  HostSpeed host_;
  std::vector<RecordedSpan>* spans_;
  Stage& stage_;
  std::vector<Stream> streams_;
  int items_of_step_;
  std::vector<int> at_once_;
  std::vector<bool> done_;
  std::array<int, played_steps> left_{};  // number of items of each step that are not done
  const PortLoads no_loads_{};
  // Parts of the communication that began in go_on() because this rank was the last to be ready.
  std::vector<Stage::Part> joined_;

  int next_ = 0;  // item that the host comes to next
  bool host_is_blocked_ = false;
  SimTime host_since_ = 0;  // when the host began to work or to wait
  // The item that made the host wait, and the item that it waits for, or -1 if it waits for a
  // stream or the device.
  int waited_ = -1, target_ = -1;
  std::map<std::int64_t, int> records_;  // by event: the last item that marked it
  std::map<int, int> wait_for_;          // by issued wait: the item with the mark, or -1

  SimTime now_ = 0;
  std::array<int, recorded_work_count> running_{};
  int flying_ = 0;  // number of communications of this rank that have begun and not ended
  ReplayedStep sums_;
  std::array<ReplayedStep, played_steps> ends_{};
  int steps_ended_ = 0;
};

// Plays all ranks until each has ended the measured step. Returns false if ranks wait for each
// other forever.
bool play(std::deque<Player>& players, Stage& stage) {
  for (Player& each : players) each.begin();
  while (!std::ranges::all_of(players, &Player::is_measured)) {
    const auto ended = stage.flights().next();
    if (ended.empty()) return false;
    const std::vector<Flights::Member> members(ended.begin(), ended.end());
    for (Player& each : players) each.let_time_pass();
    for (const Flights::Member& member : members)
      players[static_cast<std::size_t>(member.rank)].end(member.run);
    for (const Flights::Member& member : members)
      for (const Stage::Part& part : players[static_cast<std::size_t>(member.rank)].go_on())
        players[static_cast<std::size_t>(part.rank)].takes_off();
  }
  return true;
}

}  // namespace

ReplayedRanks replay_recordings(const std::vector<PricedRecording>& ranks, double overlap_slowdown,
                                const HostSpeed& host, std::vector<RecordedSpan>* spans) {
  std::vector<const Recording*> recordings;
  for (const PricedRecording& each : ranks) recordings.push_back(each.recording);
  const Meetings found(recordings);
  ReplayedRanks result;
  result.meet = found.complete();
  const auto played = [&](const Meetings& meetings) {
    Stage stage(ranks.size(), overlap_slowdown, meetings);
    std::deque<Player> players;
    for (const PricedRecording& each : ranks)
      players.emplace_back(static_cast<int>(players.size()), each, host, stage,
                           players.empty() ? spans : nullptr);
    if (!play(players, stage)) return false;
    players.front().cut_spans();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      result.steps.push_back(players[rank].measured());
      const Recording& recording = *ranks[rank].recording;
      const auto launches = std::ranges::count_if(recording.events, is_launched);
      result.steps.back().host_working = to_sim_time(
          {recording.step_host_s * host.factor + static_cast<double>(launches) * host.launch_s});
    }
    return true;
  };
  if (played(found)) return result;
  result.meet = false;
  if (spans != nullptr) spans->clear();
  MESHWRIGHT_CHECK(played(found.none()), "a stream or the host waits for what was never issued");
  return result;
}

ReplayedStep replay_recording(const Recording& recording, const std::vector<PricedEvent>& priced,
                              double overlap_slowdown, const HostSpeed& host,
                              std::vector<RecordedSpan>* spans) {
  return replay_recordings({{&recording, priced}}, overlap_slowdown, host, spans).steps.front();
}

}  // namespace meshwright::sim
