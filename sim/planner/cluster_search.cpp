#include "sim/planner/cluster_search.h"

#include <algorithm>
#include <cmath>

#include "hwprofiles/cores.h"
#include "sim/planner/in_parallel.h"
#include "sim/predict/goodput.h"

namespace meshwright::sim {

namespace {

// The reason for each Loss, indexed by Loss.
constexpr const Violation* losses[loss_count] = {
    &reasons::no_memory, &reasons::slow_alone, &reasons::slow_bubble, &reasons::slow_communication};

// Number of plans that may be built for each one that may be simulated. Building a plan only to
// find that it does not fit costs less than simulating it.
constexpr int builds_per_simulation = 2;
constexpr int last_attempts = 16;
// Number of plans that are tried before the promising ones are chosen anew. It is the same on any
// computer, so that the same plans are found.
constexpr std::size_t at_once = 4, at_once_in_proofs = 16;
// If a space has at most this many plans, no usual plans are simulated first. All its plans are
// bounded right away.
constexpr std::int64_t small_space = 4096;

}  // namespace

ClusterSearch::ClusterSearch(const Job& job, const std::string& machine, Cluster cluster,
                             const SearchOptions& options)
    : job_(job),
      machine_(machine),
      cluster_(std::move(cluster)),
      base_(base_plan(job, facts_of(cluster_.machine))),
      run_(job, base_.training, cluster_),
      trials_(job, machine, cluster_, base_, 1 - options.memory_margin),
      limit_(trials_.memory_limit_bytes()),
      threads_(options.threads > 0 ? options.threads : usable_cores()),
      watch_(options.watch),
      stop_(options.stop),
      surveyor_(job.model, base_, cluster_,
                options.profiles ? options.profiles->of(job.model, base_, cluster_) : nullptr,
                threads_) {}

void ClusterSearch::run(int budget, std::size_t keep, int for_gap) {
  keep_ = keep;
  space_ = enumerate(job_, base_, cluster_.ranks(), cluster_.processes_per_host, threads_);
  enumerated_ = space_.enumerated;
  rejected_ = space_.rejected;
  tell();
  bounds_pipelines_ = space_.legal() > small_space;
  if (bounds_pipelines_) simulate_usual(budget - budget / 6);
  survey_all();
  simulate_promising(budget);
  narrow_gap(for_gap);
  if (simulated_ == 0) find_any_that_fits();
  if (limits_decide_)
    closest_.reset();
  else if (simulated_ == 0 && !closest_)
    measure_closest_miss();
}

void ClusterSearch::tell() const {
  if (stop_ && stop_()) throw SearchStopped{};
  if (!watch_) return;
  ClusterProgress progress{machine_, cluster_.hosts, enumerated_, simulated_, bounded_, {}};
  if (!plans_.empty()) progress.best_step_time_s = plans_.front().prediction.step_time_s;
  watch_(progress);
}

double ClusterSearch::longest_step_s() const {
  const StepLimit limit = run_.longest_step();
  if (plans_.size() < keep_) return limit.seconds;
  return std::min(limit.seconds, plans_[keep_ - 1].prediction.step_time_s);
}

// Finds plans that fit, so that other plans can be pruned by comparison.
void ClusterSearch::simulate_usual(int budget) {
  const double in_time = run_.longest_step().seconds;
  entries_ = surveyor_.usual(space_, {limit_, in_time, in_time}, [&] { tell(); });
  const auto estimated = [&](const Entry& e) { return place(e, e.bounds.estimate_s); };
  while (left_of(budget) > 0 && plans_.size() < keep_) {
    std::erase_if(entries_, [&](const Entry& e) { return known_not_to_fit(e.candidate); });
    if (entries_.empty()) break;
    try_out(take_first(std::min(left_of(budget), at_once), estimated));
  }
  entries_.clear();
}

void ClusterSearch::survey_all() {
  const StepLimit limit = run_.longest_step();
  const double best = plans_.empty() ? limit.seconds : plans_.front().prediction.step_time_s;
  const double step_time_s = longest_step_s();
  Surveyed surveyed = surveyor_.all(
      space_, {limit_, step_time_s, limit.seconds, bounds_pipelines_ ? best : 0}, evaluated_,
      [&](std::size_t branches) {
        bounded_ = static_cast<double>(branches) / static_cast<double>(space_.branches.size());
        tell();
      });
  const bool too_late = step_time_s == limit.seconds;
  for (int loss = 0; loss < loss_count; ++loss)
    reject(*losses[loss], surveyed.lost[loss], too_late && loss != static_cast<int>(Loss::memory));
  reject(reasons::no_memory, surveyed.too_large, false);
  reject(reasons::too_slow, surveyed.too_slow, false);
  reject(reasons::too_slow, surveyed.too_late, true);
  reject(reasons::not_simulated, surveyed.left, false);
  left_s_ = surveyed.left_s;
  if (std::isfinite(surveyed.nearest.bytes)) nearest_ = surveyed.nearest.candidate;
  entries_ = std::move(surveyed.entries);
}

// Counts `count` plans as rejected. If `is_late`, the reason is the job's deadline or budget
// instead of `reason`.
void ClusterSearch::reject(const Violation& reason, std::int64_t count, bool is_late) {
  if (count == 0) return;
  const StepLimit limit = run_.longest_step();
  rejected_[is_late ? Violation{.statement = limit.reason} : reason] += count;
  limits_decide_ = limits_decide_ || is_late;
}

void ClusterSearch::turn_away_slow(const Entry& entry) {
  const StepLimit limit = run_.longest_step();
  reject(reasons::too_slow, 1, entry.bounds.step_time_s > limit.seconds);
}

// Returns the kind of a candidate. The estimates of plans of one kind omit a similar share of the
// time. Plans that keep parameters gathered count as ZeRO 1, because they gather about as often.
ClusterSearch::Kind ClusterSearch::kind_of(const Candidate& candidate) {
  return {candidate.schedule,
          candidate.placement,
          candidate.keeps_gathered ? 1 : candidate.zero_stage,
          candidate.shard > 1,
          surveyor_.bounds().reduces_each(candidate),
          candidate.context > 1,
          candidate.context_exchange,
          candidate.expert > 1};
}

double ClusterSearch::expected_s(const Entry& entry) {
  const auto learned = learned_.find(kind_of(entry.candidate));
  if (learned == learned_.end()) return entry.bounds.estimate_s;
  return entry.bounds.estimate_s * learned->second.sum / learned->second.count;
}

// Returns the kind of a candidate with regard to memory. The likely bytes of plans of one kind are
// wrong by a similar factor.
ClusterSearch::MemoryKind ClusterSearch::memory_kind_of(const Candidate& candidate) {
  return {candidate.recompute,        candidate.offload,     candidate.zero_stage,
          candidate.pipeline > 1,     candidate.context > 1, candidate.tensor > 1,
          candidate.sequence_parallel};
}

// Returns the likely bytes of a plan, multiplied by the least factor by which built plans of its
// kind needed more, at least 1. A plan that does not fit even so is tried late.
double ClusterSearch::expected_bytes(const Entry& entry) const {
  const auto factor = least_factors_.find(memory_kind_of(entry.candidate));
  return entry.memory.likely_bytes *
         (factor == least_factors_.end() ? 1 : std::max(1.0, factor->second));
}

// Returns whether a plan is pruned now, and counts it as rejected if so.
bool ClusterSearch::is_turned_away(const Entry& entry) {
  if (known_not_to_fit(entry.candidate))
    ++rejected_[reasons::no_memory];
  else if (entry.bounds.step_time_s > longest_step_s())
    turn_away_slow(entry);
  else
    return false;
  return true;
}

// Returns how many trials may still be made.
std::size_t ClusterSearch::left_of(int budget) const {
  return std::max<std::int64_t>(
      0, std::min(budget - simulated_, builds_per_simulation * budget - built_));
}

// Returns the sort key of an entry: plans that likely fit come first, then those that take least
// time, then those that need least memory.
std::tuple<bool, double, double> ClusterSearch::place(const Entry& entry, double seconds) const {
  const double bytes = expected_bytes(entry);
  return {bytes > limit_, seconds, bytes};
}

// Removes the `count` entries that `place` sorts first, and returns them in that order.
template <class Place>
std::vector<Entry> ClusterSearch::take_first(std::size_t count, const Place& place) {
  using Placed = std::pair<decltype(place(entries_.front())), std::size_t>;
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < entries_.size(); ++i) placed.emplace_back(place(entries_[i]), i);
  const std::size_t taken = std::min(count, placed.size());
  std::partial_sort(placed.begin(), placed.begin() + static_cast<std::ptrdiff_t>(taken),
                    placed.end());
  placed.resize(taken);
  std::vector<Entry> first;
  for (const Placed& each : placed) first.push_back(entries_[each.second]);
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.second > b.second; });
  for (const Placed& each : placed)
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(each.second));
  return first;
}

// Simulates the most promising plans first. Their order changes with what is learned.
void ClusterSearch::simulate_promising(int budget) {
  const auto turned_away = [&](const Entry& entry) { return is_turned_away(entry); };
  std::erase_if(entries_, turned_away);
  while (left_of(budget) > 0 && !entries_.empty()) {
    try_out(take_first(std::min(left_of(budget), at_once),
                       [&](const Entry& entry) { return place(entry, expected_s(entry)); }));
    std::erase_if(entries_, turned_away);
  }
}

bool ClusterSearch::simulate_lowest() {
  std::erase_if(entries_, [&](const Entry& entry) { return is_turned_away(entry); });
  if (entries_.empty()) return false;
  try_out(
      take_first(at_once_in_proofs, [](const Entry& entry) { return entry.bounds.step_time_s; }));
  return true;
}

// Simulates plans with the lowest bounds, because the most promising plans seldom have them.
void ClusterSearch::narrow_gap(int more) {
  constexpr double small_gap = 0.1;
  const std::int64_t enough = simulated_ + more, attempts = built_ + builds_per_simulation * more;
  while (simulated_ < enough && built_ < attempts && !plans_.empty()) {
    const Merit found = run_.merit(useful_step_time_s(plans_.front().prediction));
    const std::optional<Merit> left = best_left();
    if (!left || left->first >= (1 - small_gap) * found.first || !simulate_lowest()) return;
  }
}

void ClusterSearch::finish() { reject(reasons::not_simulated, std::ssize(entries_), false); }

std::optional<Merit> ClusterSearch::best_left() const {
  double least_s = left_s_;
  for (const Entry& entry : entries_) least_s = std::min(least_s, entry.bounds.step_time_s);
  if (!std::isfinite(least_s)) return std::nullopt;
  return run_.merit(least_useful_s(least_s));
}

// Returns a lower bound, in seconds, of the time of a step that takes at least `step_time_s`, with
// its share of the time that failures cost. On one cluster, plans with longer steps also lose more
// to failures, so a step longer than that of the best plan is no better than it.
double ClusterSearch::least_useful_s(double step_time_s) const {
  const double useful_s = step_time_s / highest_goodput(cluster_);
  if (plans_.empty() || step_time_s < plans_.front().prediction.step_time_s) return useful_s;
  return std::max(useful_s, useful_step_time_s(plans_.front().prediction));
}

// Tries the plans that likely need least memory, because none was simulated.
void ClusterSearch::find_any_that_fits() {
  for (int attempts = 0; attempts < last_attempts && simulated_ == 0 && !entries_.empty();
       ++attempts)
    try_out(take_first(1, [](const Entry& entry) { return entry.memory.likely_bytes; }));
}

// Returns whether a candidate needs at least as much memory as a plan that did not fit. This holds
// for the same plan with larger micro-batches if at least as many of them are in flight.
bool ClusterSearch::known_not_to_fit(const Candidate& candidate) {
  return std::any_of(too_large_.begin(), too_large_.end(), [&](const Candidate& large) {
    Candidate smaller = candidate;
    smaller.micro_batch = large.micro_batch;
    smaller.placement = large.placement;
    return large == smaller && large.micro_batch <= candidate.micro_batch &&
           surveyor_.bounds().in_flight(large, 0) <= surveyor_.bounds().in_flight(candidate, 0) &&
           surveyor_.bounds().reduces_each(large) == surveyor_.bounds().reduces_each(candidate);
  });
}

void ClusterSearch::note_miss(const Candidate& candidate, const Trial::Need& need) {
  ++rejected_[reasons::no_memory];
  too_large_.push_back(candidate);
  if (!closest_ || need.bytes < closest_->peak_memory_bytes)
    closest_ = ClosestMiss{to_plan(candidate, base_), machine_, cluster_.hosts, need.bytes,
                           need.limit_bytes};
}

// Simulates plans in parallel. Their results are noted in the order of the entries, so that the
// number of threads changes nothing.
void ClusterSearch::try_out(std::span<const Entry> entries) {
  std::vector<Trial> trials(entries.size());
  in_parallel(entries.size(), threads_, [&](std::size_t i, std::size_t) {
    trials[i] = trials_.try_out(entries[i].candidate);
  });
  for (std::size_t i = 0; i < entries.size(); ++i) note(entries[i], std::move(trials[i]));
  tell();
}

void ClusterSearch::note(const Entry& entry, Trial trial) {
  evaluated_.push_back(entry.candidate);
  if (trial.is_plan) ++built_;
  if (trial.rejected) {
    ++rejected_[*trial.rejected];
    return;
  }
  const double needed = trial.memory->bytes / trial.memory->limit_bytes * limit_;
  const double factor = needed / entry.memory.likely_bytes;
  double& least = least_factors_.try_emplace(memory_kind_of(entry.candidate), factor).first->second;
  least = std::min(least, factor);
  if (!trial.memory->fits) return note_miss(entry.candidate, *trial.memory);
  ++simulated_;
  const double step = useful_step_time_s(trial.simulated->prediction);
  Learned& learned = learned_[kind_of(entry.candidate)];
  learned.sum += step / entry.bounds.estimate_s;
  ++learned.count;
  const StepLimit limit = run_.longest_step();
  if (step > limit.seconds) return reject({.statement = limit.reason}, 1, true);
  const auto better = [&](double time, const RankedPlan& other) {
    return run_.merit(time) < run_.merit(useful_step_time_s(other.prediction));
  };
  plans_.insert(std::upper_bound(plans_.begin(), plans_.end(), step, better),
                std::move(*trial.simulated));
}

// Builds the candidate with the lowest bound of memory that exceeds the limit, to know its exact
// bytes. Called if nothing was simulated and no plan was built that needed too much memory.
void ClusterSearch::measure_closest_miss() {
  if (!nearest_) return;
  const Trial trial = trials_.build_alone(*nearest_);
  if (!trial.memory) return;
  closest_ = ClosestMiss{to_plan(*nearest_, base_), machine_, cluster_.hosts, trial.memory->bytes,
                         trial.memory->limit_bytes};
}

}  // namespace meshwright::sim
