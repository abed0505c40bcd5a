#include "sim/rehearsal/replay_recording.h"

#include <algorithm>
#include <deque>
#include <map>

#include "models/core/error.h"

namespace meshwright::sim {

namespace {

// The third step's period counts. The fourth one is there to overlap with its end.
constexpr int played_steps = 4, measured_step = 2;

// A launch waits when this many are queued. CUDA documents no number; this one is usually reported.
constexpr std::size_t most_queued = 1024;

bool runs_on_device(Recorded what) {
  return what == Recorded::kernel || what == Recorded::collective || what == Recorded::copy ||
         what == Recorded::set;
}

ReplayedStep difference(const ReplayedStep& after, const ReplayedStep& before) {
  ReplayedStep d;
  d.step_time = after.step_time - before.step_time;
  for (std::size_t use = 0; use < recorded_work_count; ++use)
    d.busy[use] = after.busy[use] - before.busy[use];
  d.computing = after.computing - before.computing;
  d.exposed_communication = after.exposed_communication - before.exposed_communication;
  d.exposed_copies = after.exposed_copies - before.exposed_copies;
  d.idle = after.idle - before.idle;
  return d;
}

// Plays the steps. An item is an event of a step, or the end of a step on the host. Items are
// numbered through all steps in the order in which the host comes to them.
class Player {
 public:
  Player(const Recording& recording, const std::vector<PricedEvent>& priced, double slowdown,
         const HostSpeed& host)
      : recording_(recording),
        priced_(priced),
        host_(host),
        flights_(1, slowdown),
        streams_(static_cast<std::size_t>(recording.streams)),
        items_of_step_(static_cast<int>(recording.events.size()) + 1),
        done_(static_cast<std::size_t>(items_of_step_) * played_steps) {
    for (int& left : left_) left = items_of_step_;
  }

  ReplayedStep play() {
    go_on_with_host();
    while (steps_ended_ <= measured_step) {
      const auto members = flights_.next();
      MESHWRIGHT_CHECK(!members.empty(), "a stream or the host waits for what was never issued");
      const int run = members.front().run;
      let_time_pass();
      if (run == host_run)
        arrive();
      else
        end_on_device(run);
      start_what_can();
      if (host_is_blocked_ && !must_wait()) go_on_with_host();
    }
    return difference(ends_[measured_step], ends_[measured_step - 1]);
  }

 private:
  static constexpr int host_run = -1;

  struct Stream {
    std::deque<int> items;  // issued, and not done
    bool running = false;   // the first of them
  };

  bool ends_step(int item) const { return item % items_of_step_ == items_of_step_ - 1; }
  const RecordedEvent& event(int item) const {
    return recording_.events[static_cast<std::size_t>(item % items_of_step_)];
  }
  const PricedEvent& priced(int item) const {
    return priced_[static_cast<std::size_t>(item % items_of_step_)];
  }
  double at_s(int item) const {
    return ends_step(item) ? recording_.step_host_s : event(item).at_s;
  }

  // Lets the host work until the next item. Threads may have noted their events out of order.
  void go_on_with_host() {
    host_is_blocked_ = false;
    if (next_ == items_of_step_ * played_steps) return;
    const double before = next_ % items_of_step_ == 0 ? 0 : at_s(next_ - 1);
    double work = std::max(0.0, at_s(next_) - before) * host_.factor;
    if (!ends_step(next_) && runs_on_device(event(next_).what)) work += host_.launch_s;
    fly(host_run, no_loads_, false, to_sim_time({work}));
  }

  void fly(int run, const PortLoads& loads, bool computes, SimTime lasts) {
    const Flights::Member member{0, run, &loads, computes};
    flights_.add({&member, 1}, flights_.now(), lasts);
  }

  // Issues the item to which the host has come.
  void arrive() {
    const int item = next_++;
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
    host_is_blocked_ = true;  // until start_what_can() has shown that nothing is to be waited for
  }

  void issue(int item) {
    const RecordedEvent& issued = event(item);
    if (issued.what == Recorded::wait) wait_for_[item] = last_record(issued.event);
    if (issued.what == Recorded::record) records_[issued.event] = item;
    streams_[static_cast<std::size_t>(issued.stream)].items.push_back(item);
  }

  // Returns the item that last marked the event, or -1: then there is nothing to wait for.
  int last_record(std::int64_t event) const {
    const auto found = records_.find(event);
    return found == records_.end() ? -1 : found->second;
  }

  bool is_done(int item) const { return item < 0 || done_[static_cast<std::size_t>(item)]; }

  // Returns whether the host still waits: for room in a queue, or by the last item that made it
  // wait.
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
        while (!stream.running && !stream.items.empty() && start(stream)) again = true;
    }
  }

  // Begins the first item of an idle stream. Returns false if the item has to wait.
  bool start(Stream& stream) {
    const int item = stream.items.front();
    const Recorded what = event(item).what;
    if (what == Recorded::wait && !is_done(wait_for_.at(item))) return false;
    if (runs_on_device(what)) {
      const PricedEvent& work = priced(item);
      stream.running = true;
      ++running_[static_cast<std::size_t>(work.use)];
      fly(item, work.loads, computes(work.use), work.lasts);
    } else {
      stream.items.pop_front();
      wait_for_.erase(item);
      finish(item);
    }
    return true;
  }

  void end_on_device(int item) {
    Stream& stream = streams_[static_cast<std::size_t>(event(item).stream)];
    stream.running = false;
    stream.items.pop_front();
    --running_[static_cast<std::size_t>(priced(item).use)];
    finish(item);
  }

  void finish(int item) {
    done_[static_cast<std::size_t>(item)] = true;
    --left_[static_cast<std::size_t>(item / items_of_step_)];
    while (steps_ended_ < played_steps && left_[static_cast<std::size_t>(steps_ended_)] == 0) {
      sums_.step_time = flights_.now();
      ends_[static_cast<std::size_t>(steps_ended_++)] = sums_;
    }
  }

  // Attributes the time since the last call to what ran in it.
  void let_time_pass() {
    const SimTime passed = flights_.now() - now_;
    now_ = flights_.now();
    bool computing = false;
    for (std::size_t use = 0; use < recorded_work_count; ++use) {
      if (running_[use] == 0) continue;
      sums_.busy[use] += passed;
      computing = computing || computes(static_cast<RecordedWork>(use));
    }
    const auto runs = [&](RecordedWork use) { return running_[static_cast<std::size_t>(use)] > 0; };
    (computing                           ? sums_.computing
     : runs(RecordedWork::communication) ? sums_.exposed_communication
     : runs(RecordedWork::copies)        ? sums_.exposed_copies
                                         : sums_.idle) += passed;
  }

  const Recording& recording_;
  const std::vector<PricedEvent>& priced_;
  HostSpeed host_;
  Flights flights_;
  std::vector<Stream> streams_;
  int items_of_step_;
  std::vector<bool> done_;
  std::array<int, played_steps> left_{};  // items of each step that are not done
  const PortLoads no_loads_{};

  int next_ = 0;  // item to which the host comes
  bool host_is_blocked_ = false;
  int waited_ = -1, target_ = -1;  // item that made the host wait, and for which, if for one item
  std::map<std::int64_t, int> records_;  // of each event: the last item that marked it
  std::map<int, int> wait_for_;          // of each issued wait: the mark, or -1

  SimTime now_ = 0;
  std::array<int, recorded_work_count> running_{};
  ReplayedStep sums_;
  std::array<ReplayedStep, played_steps> ends_{};
  int steps_ended_ = 0;
};

}  // namespace

ReplayedStep replay_recording(const Recording& recording, const std::vector<PricedEvent>& priced,
                              double overlap_slowdown, const HostSpeed& host) {
  ReplayedStep step = Player(recording, priced, overlap_slowdown, host).play();
  const auto launches =
      std::ranges::count_if(recording.events, runs_on_device, &RecordedEvent::what);
  step.host_working = to_sim_time(
      {recording.step_host_s * host.factor + static_cast<double>(launches) * host.launch_s});
  return step;
}

}  // namespace meshwright::sim
