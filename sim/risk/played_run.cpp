#include "sim/risk/played_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwright::sim {

namespace {

constexpr std::int64_t most_failures = 1'000'000;
constexpr double longest_of_work = 1000;

// Generates random numbers by SplitMix64 (Steele, Lea and Flood 2014), with another sequence for
// each seed and run.
class Random {
 public:
  Random(std::uint64_t seed, int run) : state_(seed) {
    state_ = next() ^ (static_cast<std::uint64_t>(run) * 0xd1342543de82ef95U);
  }
  double above_0_up_to_1() { return (static_cast<double>(next() >> 11U) + 1) * 0x1p-53; }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  std::uint64_t state_;
};

// Generates the failures of a cluster one after the other: when the next one happens, and its
// cause.
class FailureTimes {
 public:
  FailureTimes(const ClusterFailures& failures, std::uint64_t seed, int run)
      : sources_(failures.sources), per_s_(failures.per_s()), random_(seed, run) {
    advance();
  }
  double at() const { return at_; }
  const FailureSource& source() const { return *source_; }
  void advance() {
    if (sources_.empty()) {
      at_ = std::numeric_limits<double>::infinity();
      return;
    }
    at_ -= std::log(random_.above_0_up_to_1()) / per_s_;
    double left = random_.above_0_up_to_1() * per_s_;
    source_ = sources_.data();
    while (source_ != &sources_.back() && left > source_->per_s) left -= (source_++)->per_s;
  }

 private:
  const std::vector<FailureSource>& sources_;
  double per_s_;
  Random random_;
  double at_ = 0;
  const FailureSource* source_ = nullptr;
};

// Computes when steps and checkpoints are done while nothing fails, counted from time 0. All
// quantities are in seconds, and work is measured in seconds of steps.
struct Work {
  double interval_s, stall_s, write_s;

  // Returns the seconds until the first copy is made.
  double first_s() const { return interval_s + stall_s; }
  // Returns the seconds from one copy to the next.
  double cycle_s() const { return std::max(interval_s, write_s) + stall_s; }

  // Returns the time that `work_s` of steps takes, with its checkpoints.
  double time_of(double work_s) const {
    const double copies = std::ceil(work_s / interval_s) - 1;
    if (copies < 1) return work_s;
    return first_s() + (copies - 1) * cycle_s() + (work_s - copies * interval_s);
  }
  // Returns the seconds of steps that are done within `time_s`.
  double within(double time_s) const {
    const double after = time_s - first_s();
    if (after < 0) return std::min(time_s, interval_s);
    const double copies = std::floor(after / cycle_s());
    return interval_s * (1 + copies) + std::min(after - copies * cycle_s(), interval_s);
  }
  // Returns the seconds of steps that are in a written checkpoint by `time_s`.
  double written_within(double time_s) const {
    const double after = time_s - first_s() - write_s;
    return after < 0 ? 0 : interval_s * (1 + std::floor(after / cycle_s()));
  }
};

// Provides replacement hosts: first the spares, then the hosts that were requested for earlier
// losses.
class Hosts {
 public:
  Hosts(int spares, double replacement_s) : arrivals_(spares, 0.0), replacement_s_(replacement_s) {}

  // Returns when a host arrives to replace one that is requested at `asked`.
  double arrival(double asked) {
    if (arrivals_.empty()) return asked + replacement_s_;
    double& first = *std::ranges::min_element(arrivals_);
    const double there = std::max(asked, first);
    first = asked + replacement_s_;
    return there;
  }

 private:
  std::vector<double> arrivals_;
  double replacement_s_;
};

class Player {
 public:
  Player(const RunModel& model, std::uint64_t seed, int run)
      : model_(model),
        failures_(model.failures),
        work_{model.every_steps * model.step_time_s, failures_.stall_s, failures_.write_s},
        next_(failures_, seed, run),
        hosts_(failures_.spares, failures_.replacement_s) {}

  PlayedRun play() {
    const double all_s = model_.steps * model_.step_time_s;
    const double longest_s =
        longest_of_work * (all_s + failures_.restart_s + failures_.replacement_s);
    double done_s = 0;
    for (;;) {
      const double left_s = all_s - done_s, takes_s = work_.time_of(left_s);
      if (next_.at() >= clock_ + takes_s) {
        clock_ += takes_s;
        run_.checkpoints_s += takes_s - left_s;
        break;
      }
      done_s += work_until_failure();
      recover();
      run_.finished = run_.failures < most_failures && clock_ < longest_s;
      if (!run_.finished) break;
    }
    run_.wall_s = clock_;
    return run_;
  }

 private:
  // Works until the next failure. Returns the seconds of steps since the last recovery that the
  // newest checkpoint keeps.
  double work_until_failure() {
    const FailureSource& source = next_.source();
    const double time_s = next_.at() - clock_, worked_s = work_.within(time_s);
    double kept_s = work_.written_within(time_s);
    const double copied_s = time_s - work_.stall_s - work_.write_s;
    if (copied_s > 0 && failures_.can_save(source))
      kept_s = std::max(
          kept_s, std::floor(work_.within(copied_s) / model_.step_time_s) * model_.step_time_s);
    run_.checkpoints_s += time_s - worked_s;
    run_.lost_s += worked_s - kept_s;
    time_of(source) += worked_s - kept_s;
    clock_ = next_.at();
    return kept_s;
  }

  // Advances from one failure to the time at which steps go on, through all failures during the
  // recovery.
  void recover() {
    const double begin = clock_;
    double waited = 0, resumes = clock_;
    do {
      const FailureSource& source = next_.source();
      const double failed = next_.at(), detected = failed + source.detection_s;
      const double host = source.loses_host ? hosts_.arrival(failed - source.notice_s) : failed;
      const double without_host = std::max(ready_, detected);
      ready_ = std::max(without_host, host);
      waited += ready_ - without_host;
      const double before = std::max(resumes, failed);
      resumes = ready_ + failures_.restart_s;
      time_of(source) += resumes - before;
      ++run_.count_of[static_cast<std::size_t>(source.cause)];
      ++run_.failures;
      next_.advance();
    } while (next_.at() < resumes && run_.failures < most_failures);
    run_.waiting_s += waited;
    run_.restarts_s += resumes - begin - waited;
    clock_ = resumes;
  }

  double& time_of(const FailureSource& source) {
    return run_.time_of_s[static_cast<std::size_t>(source.cause)];
  }

  const RunModel& model_;
  const ClusterFailures& failures_;
  const Work work_;
  FailureTimes next_;
  Hosts hosts_;
  PlayedRun run_;
  double clock_ = 0;
  double ready_ = 0;  // when all hosts that were requested have arrived
};

}  // namespace

PlayedRun play_run(const RunModel& model, std::uint64_t seed, int run) {
  return Player(model, seed, run).play();
}

}  // namespace meshwright::sim
