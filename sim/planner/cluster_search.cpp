#include "sim/planner/cluster_search.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "models/core/error.h"
#include "models/passes/recompute_budget.h"
#include "sim/cost/target.h"
#include "sim/predict/goodput.h"

namespace meshwright {

namespace {

const char* const no_memory = "does not fit in memory";
const char* const not_simulated = "estimated slower than the simulated plans";
const char* const losses[loss_count] = {
    no_memory, "slower than the plans found: computation alone takes longer",
    "slower than the plans found: stages are idle (bubble)",
    "slower than the plans found: communication"};

// Building a plan only to find that it does not fit costs less than simulating it.
constexpr int builds_per_simulation = 2;
constexpr int last_attempts = 16;
// A space of at most so many plans is bounded closely at once.
constexpr std::int64_t small_space = 4096;
constexpr std::size_t closely_bounded_usual_plans = 1024;
// More plans than that are not kept; how good they could be is.
constexpr std::size_t most_entries = 25'000;

double peak_of(const std::vector<StageMemory>& stages) {
  std::int64_t peak = 0;
  for (const StageMemory& stage : stages) peak = std::max(peak, stage.peak_bytes);
  return static_cast<double>(peak);
}

// What one begins with: nothing moved away, all blocks alike, states in as many parts as there are
// replicas, tensor groups side by side.
Branch usual(const Branch& whole) {
  Branch branch = whole;
  branch.placements.resize(1);
  branch.savings.clear(), branch.shardings.clear();
  branch.cut_takes_saving.clear(), branch.cut_takes_sharding.clear();
  const auto is_usual = [](const Saving& each) {
    return each.fraction == 1 && each.offload == Offload::none;
  };
  std::copy_if(whole.savings.begin(), whole.savings.end(), std::back_inserter(branch.savings),
               is_usual);
  const auto is_whole = [](const Sharding& each) { return each.shard == 1; };
  std::copy_if(whole.shardings.begin(), whole.shardings.end(), std::back_inserter(branch.shardings),
               is_whole);
  for (std::size_t cut = 0; cut < whole.cuts.size(); ++cut) {
    for (std::size_t i = 0; i < whole.savings.size(); ++i)
      if (is_usual(whole.savings[i])) branch.cut_takes_saving.push_back(whole.saves(cut, i));
    for (std::size_t i = 0; i < whole.shardings.size(); ++i)
      if (is_whole(whole.shardings[i])) branch.cut_takes_sharding.push_back(whole.takes(cut, i));
  }
  return branch;
}

Branch only(const Candidate& candidate) {
  Branch branch;
  branch.shape = candidate;
  branch.cuts = {{candidate.schedule, candidate.virtual_stages}};
  branch.shardings = {{candidate.zero_stage, candidate.shard, candidate.reduce_gradients,
                       candidate.keeps_gathered}};
  branch.savings = {{candidate.recompute, candidate.recompute_fraction, candidate.offload}};
  branch.kernels = {{candidate.sequence_parallel, candidate.tensor_chunks, candidate.compiler,
                     candidate.attention}};
  branch.placements = {candidate.placement};
  branch.cut_takes_sharding = branch.cut_takes_saving = {1};
  return branch;
}

bool faster(const Swept::Survivor& a, const Swept::Survivor& b) {
  return a.step_time_s < b.step_time_s;
}

}  // namespace

ClusterSearch::ClusterSearch(const Job& job, const std::string& machine, Cluster cluster,
                             double memory_margin)
    : job_(job),
      machine_(machine),
      cluster_(std::move(cluster)),
      facts_(facts_of(cluster_.machine)),
      base_(base_plan(job, facts_)),
      usable_(1 - memory_margin),
      limit_(usable_ * cluster_.device().memory_bytes),
      bounds_(job.model, base_, cluster_) {}

void ClusterSearch::run(int budget, std::size_t keep) {
  keep_ = keep;
  space_ = enumerate(job_, base_, cluster_.ranks());
  enumerated_ = space_.enumerated;
  rejected_ = space_.rejected;
  bounds_pipelines_ = space_.legal() > small_space;
  if (bounds_pipelines_) simulate_usual(budget - budget / 6);
  sweep_all();
  simulate_promising(budget);
  if (simulated_ == 0) find_any_that_fits();
  if (limits_decide_)
    closest_.reset();
  else if (simulated_ == 0 && !closest_)
    measure_closest_miss();
}

double ClusterSearch::longest_step_s() const {
  const StepLimit limit = longest_step(job_.objective, base_.training, cluster_);
  if (plans_.size() < keep_) return limit.seconds;
  return std::min(limit.seconds, plans_[keep_ - 1].prediction.step_time_s);
}

// Finds plans that fit, so that others can be turned away.
void ClusterSearch::simulate_usual(int budget) {
  const double in_time = longest_step(job_.objective, base_.training, cluster_).seconds;
  Swept swept;
  for (const Branch& branch : space_.branches) {
    const Branch part = usual(branch);
    if (part.savings.empty() || part.shardings.empty()) continue;
    sweep(part, bounds_, {std::numeric_limits<double>::infinity(), in_time}, swept);
    if (swept.survivors.size() > 2 * most_entries) {
      const auto middle = swept.survivors.begin() + static_cast<std::ptrdiff_t>(most_entries);
      std::nth_element(swept.survivors.begin(), middle, swept.survivors.end(), faster);
      swept.survivors.erase(middle, swept.survivors.end());
    }
  }
  std::stable_sort(swept.survivors.begin(), swept.survivors.end(), faster);
  for (const Swept::Survivor& survivor : swept.survivors) {
    if (entries_.size() >= closely_bounded_usual_plans) break;
    const MemoryBounds memory = bounds_.memory(survivor.candidate);
    if (memory.likely_bytes <= limit_)
      entries_.push_back({survivor.candidate, memory, bounds_.time(survivor.candidate)});
  }
  sort_entries();
  for (const Entry& entry : entries_) {
    if (simulated_ >= budget || built_ >= builds_per_simulation * budget || plans_.size() >= keep_)
      break;
    if (!known_not_to_fit(entry.candidate)) evaluate(entry);
  }
  entries_.clear();
}

void ClusterSearch::sweep_all() {
  const StepLimit limit = longest_step(job_.objective, base_.training, cluster_);
  const Limits limits{limit_, longest_step_s()};
  Swept swept;
  for (const Branch& branch : space_.branches) {
    sweep(branch, bounds_, limits, swept);
    bound_closely(swept.survivors, limits);
    swept.survivors.clear();
  }
  for (const Candidate& done : evaluated_) {  // counted already
    Swept own;
    sweep(only(done), bounds_, limits, own);
    for (int loss = 0; loss < loss_count; ++loss) swept.lost[loss] -= own.lost[loss];
  }
  const bool too_late = limits.step_time_s == limit.seconds;
  for (int loss = 0; loss < loss_count; ++loss) {
    if (swept.lost[loss] == 0) continue;
    const bool of_limit = too_late && loss != static_cast<int>(Loss::memory);
    rejected_[of_limit ? limit.reason : losses[loss]] += swept.lost[loss];
    limits_decide_ = limits_decide_ || of_limit;
  }
  if (swept.nearest_bytes > 0 && (!nearest_ || swept.nearest_bytes < nearest_->memory.least_bytes))
    nearest_ = Entry{swept.nearest, bounds_.memory(swept.nearest), {}};
  sort_entries();
}

// Of what is too slow its memory is of no interest.
void ClusterSearch::bound_closely(const std::vector<Swept::Survivor>& survivors,
                                  const Limits& limits) {
  for (const Swept::Survivor& survivor : survivors) {
    if (std::find(evaluated_.begin(), evaluated_.end(), survivor.candidate) != evaluated_.end())
      continue;
    Entry entry{survivor.candidate, {}, bounds_.time(survivor.candidate)};
    if (entry.bounds.step_time_s > limits.step_time_s) {
      turn_away_slow(entry);
      continue;
    }
    entry.memory = bounds_.memory(survivor.candidate);
    if (entry.memory.least_bytes > limit_) {
      ++rejected_[no_memory];
      if (!nearest_ || entry.memory.least_bytes < nearest_->memory.least_bytes) nearest_ = entry;
      continue;
    }
    const bool may_be_best =
        plans_.empty() || entry.bounds.step_time_s < plans_.front().prediction.step_time_s;
    if (bounds_pipelines_ && may_be_best) {
      const double closer = bounds_.pipeline_time(entry.candidate);
      entry.bounds.step_time_s = std::max(entry.bounds.step_time_s, closer);
      if (closer > 0) entry.bounds.estimate_s = std::max(entry.bounds.step_time_s, closer);
      if (entry.bounds.step_time_s > limits.step_time_s) {
        turn_away_slow(entry);
        continue;
      }
    }
    entries_.push_back(entry);
  }
  if (entries_.size() > 2 * most_entries) leave_slowest();
}

void ClusterSearch::turn_away_slow(const Entry& entry) {
  const StepLimit limit = longest_step(job_.objective, base_.training, cluster_);
  const bool late = entry.bounds.step_time_s > limit.seconds;
  ++rejected_[late ? limit.reason : "slower than the plans found (lower bound)"];
  limits_decide_ = limits_decide_ || late;
}

// The slower half by their bounds: how good they could be is kept.
void ClusterSearch::leave_slowest() {
  const auto middle = entries_.begin() + static_cast<std::ptrdiff_t>(most_entries);
  std::nth_element(entries_.begin(), middle, entries_.end(), [](const Entry& a, const Entry& b) {
    return a.bounds.step_time_s < b.bounds.step_time_s;
  });
  std::for_each(middle, entries_.end(), [&](const Entry& entry) { leave(entry); });
  entries_.erase(middle, entries_.end());
}

// What likely fits first, the best estimate first.
void ClusterSearch::sort_entries() {
  const auto place = [&](const Entry& entry) {
    return std::tuple(entry.memory.likely_bytes > limit_, entry.bounds.estimate_s,
                      entry.memory.likely_bytes);
  };
  std::stable_sort(entries_.begin(), entries_.end(),
                   [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
}

// What the estimate leaves out is much alike in plans of a kind; kept parameters are gathered about
// as often as ZeRO 1 gathers them.
ClusterSearch::Kind ClusterSearch::kind_of(const Candidate& candidate) const {
  return {candidate.schedule,
          candidate.placement,
          candidate.keeps_gathered ? 1 : candidate.zero_stage,
          candidate.shard > 1,
          bounds_.reduces_each(candidate),
          candidate.context > 1};
}

double ClusterSearch::expected_s(const Entry& entry) const {
  const auto learned = learned_.find(kind_of(entry.candidate));
  if (learned == learned_.end()) return entry.bounds.estimate_s;
  return entry.bounds.estimate_s * learned->second.sum / learned->second.count;
}

// And counts it.
bool ClusterSearch::is_turned_away(const Entry& entry) {
  if (known_not_to_fit(entry.candidate))
    ++rejected_[no_memory];
  else if (entry.bounds.step_time_s > longest_step_s())
    turn_away_slow(entry);
  else
    return false;
  return true;
}

// The most promising first, which changes with what is learned.
void ClusterSearch::simulate_promising(int budget) {
  const auto turned_away = [&](const Entry& entry) { return is_turned_away(entry); };
  while (simulated_ < budget && built_ < builds_per_simulation * budget) {
    std::erase_if(entries_, turned_away);
    if (entries_.empty()) return;
    const auto place = [&](const Entry& entry) {
      return std::pair(entry.memory.likely_bytes > limit_, expected_s(entry));
    };
    const auto next =
        std::min_element(entries_.begin(), entries_.end(),
                         [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
    const Entry chosen = *next;
    entries_.erase(next);
    evaluate(chosen);
  }
  std::erase_if(entries_, turned_away);
}

bool ClusterSearch::simulate_lowest() {
  std::erase_if(entries_, [&](const Entry& entry) { return is_turned_away(entry); });
  const auto lowest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const Entry& a, const Entry& b) { return a.bounds.step_time_s < b.bounds.step_time_s; });
  if (lowest == entries_.end()) return false;
  const Entry chosen = *lowest;
  entries_.erase(lowest);
  evaluate(chosen);
  return true;
}

void ClusterSearch::finish() {
  for (const Entry& entry : entries_) leave(entry);
  entries_.clear();
}

std::optional<Merit> ClusterSearch::best_left() const {
  std::optional<Merit> best = best_left_;
  for (const Entry& entry : entries_) {
    const Merit own = merit(job_.objective, cluster_, entry.bounds.step_time_s);
    if (!best || own < *best) best = own;
  }
  return best;
}

// Nothing among the fastest fits: the smallest ones then.
void ClusterSearch::find_any_that_fits() {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.memory.likely_bytes < b.memory.likely_bytes;
  });
  int attempts = 0;
  std::size_t next = 0;
  for (; next < entries_.size() && simulated_ == 0 && attempts < last_attempts; ++next, ++attempts)
    evaluate(entries_[next]);
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(next));
}

// Not simulated: it could be as good as its bound.
void ClusterSearch::leave(const Entry& entry) {
  ++rejected_[not_simulated];
  const Merit best = merit(job_.objective, cluster_, entry.bounds.step_time_s);
  if (!best_left_ || best < *best_left_) best_left_ = best;
}

// The same plan needs no less memory with larger micro-batches, while as many are in flight.
bool ClusterSearch::known_not_to_fit(const Candidate& candidate) {
  if (schedule_info(candidate.schedule).forwards_all ||
      bounds_.micro_batches(candidate) < candidate.pipeline)
    return false;
  return std::any_of(too_large_.begin(), too_large_.end(), [&](const Candidate& large) {
    Candidate smaller = candidate;
    smaller.micro_batch = large.micro_batch;
    smaller.placement = large.placement;
    return large == smaller && large.micro_batch <= candidate.micro_batch &&
           bounds_.reduces_each(large) == bounds_.reduces_each(candidate);
  });
}

// What decides whether a plan that is built fits.
ClusterSearch::Need ClusterSearch::need_of(const Built& built) const {
  if (const auto& framework = built.framework) {
    const auto bytes = static_cast<double>(framework->fit.bytes);
    const double limit = usable_ * framework->limit_bytes;
    return {bytes, limit, framework->fit.fits && (usable_ == 1 || bytes <= limit)};
  }
  const double peak = peak_of(stage_memory(built.compiled.stages, cluster_));
  return {peak, limit_, peak <= limit_};
}

void ClusterSearch::note_miss(const Candidate& candidate, const Need& need) {
  ++rejected_[no_memory];
  too_large_.push_back(candidate);
  if (!closest_ || need.bytes < closest_->peak_memory_bytes)
    closest_ = ClosestMiss{to_plan(candidate, base_), machine_, cluster_.hosts, need.bytes,
                           need.limit_bytes};
}

// Nothing, and a rejection, where the job's budget for activations is too small for this plan.
std::optional<ClusterSearch::Built> ClusterSearch::build(const Plan& plan) {
  try {
    Compiled compiled = compile(job_.model, plan, target_of(cluster_, plan.training));
    return Built{std::move(compiled), framework_use(job_.model, plan.training, cluster_)};
  } catch (const BudgetTooSmall&) {
    ++rejected_["training.recompute_budget is too small"];
  } catch (const NotSupportedYet&) {
    throw;  // the job asks for it
  } catch (const InputError& error) {
    ++rejected_[error.what()];
  }
  return std::nullopt;
}

void ClusterSearch::evaluate(const Entry& entry) {
  evaluated_.push_back(entry.candidate);
  Job decided = job_;
  decided.plan = to_plan(entry.candidate, base_);
  Plan plan;
  try {
    plan = settle(decided, cluster_.ranks(), facts_);
  } catch (const InputError& error) {
    ++rejected_[error.what()];
    return;
  }
  ++built_;
  const auto built = build(plan);
  if (!built) return;
  const Compiled& compiled = built->compiled;
  const Need need = need_of(*built);
  const auto on_host = static_cast<double>(host_memory_bytes(compiled.stages, cluster_));
  if (!need.fits) return note_miss(entry.candidate, need);
  if (on_host > cluster_.machine.host.memory_bytes) {
    ++rejected_["what is offloaded does not fit in the hosts' memory"];
    return;
  }
  ++simulated_;
  RankedPlan ranked{compiled.plan, machine_, cluster_.hosts, cluster_, {}, false};
  ranked.prediction =
      predict(compiled, cluster_, {.spot = job_.objective.spot, .framework = built->framework});
  ranked.prediction.goodput =
      goodput_of(compiled, cluster_, job_.checkpoint ? job_.checkpoint->every_steps : 0,
                 ranked.prediction.step_time_s);
  const double step = useful_step_time_s(ranked.prediction);
  Learned& learned = learned_[kind_of(entry.candidate)];
  learned.sum += step / entry.bounds.estimate_s;
  ++learned.count;
  const StepLimit limit = longest_step(job_.objective, base_.training, cluster_);
  if (step > limit.seconds) {
    ++rejected_[limit.reason];
    limits_decide_ = true;
    return;
  }
  const auto better = [&](double time, const RankedPlan& other) {
    return merit(job_.objective, cluster_, time) <
           merit(job_.objective, cluster_, useful_step_time_s(other.prediction));
  };
  plans_.insert(std::upper_bound(plans_.begin(), plans_.end(), step, better), std::move(ranked));
}

// Every candidate was turned away by its bound: build the nearest for the exact number.
void ClusterSearch::measure_closest_miss() {
  if (!nearest_) return;
  Job decided = job_;
  decided.plan = to_plan(nearest_->candidate, base_);
  const Plan plan = settle(decided, cluster_.ranks(), facts_);
  if (const auto built = build(plan)) {
    const Need need = need_of(*built);
    closest_ = ClosestMiss{plan, machine_, cluster_.hosts, need.bytes, need.limit_bytes};
  }
}

}  // namespace meshwright
