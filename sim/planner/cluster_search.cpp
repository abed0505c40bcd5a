#include "sim/planner/cluster_search.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/passes/recompute_budget.h"
#include "sim/predict/goodput.h"

namespace meshwright {

namespace {

const char* const no_memory = "does not fit in memory";

// Building a plan only to find that it does not fit costs less than simulating it.
constexpr int builds_per_simulation = 2;
constexpr int last_attempts = 16;

double peak_of(const std::vector<StageMemory>& stages) {
  std::int64_t peak = 0;
  for (const StageMemory& stage : stages) peak = std::max(peak, stage.peak_bytes);
  return static_cast<double>(peak);
}

}  // namespace

ClusterSearch::ClusterSearch(const Job& job, const std::string& machine, Cluster cluster)
    : job_(job),
      machine_(machine),
      cluster_(std::move(cluster)),
      facts_(machine_facts(cluster_.machine)),
      base_(base_plan(job, facts_)),
      limit_(cluster_.device().memory_bytes) {}

void ClusterSearch::run(int budget, std::size_t keep) {
  bound_all();
  simulate_promising(budget, keep);
  if (simulated_ == 0) find_any_that_fits();
  if (!entries_.empty())
    rejected_["estimated slower than the simulated plans"] +=
        static_cast<std::int64_t>(entries_.size());
  if (limits_decide_)
    closest_.reset();
  else if (simulated_ == 0 && !closest_)
    measure_closest_miss();
}

void ClusterSearch::bound_all() {
  Space space = enumerate(job_, base_, cluster_.ranks());
  enumerated_ = space.enumerated;
  rejected_ = std::move(space.rejected);
  BoundMaker bounds(job_.model, base_, cluster_);
  for (const Candidate& candidate : space.candidates) {
    Entry entry{candidate, bounds.memory(candidate), {}};
    if (entry.memory > limit_) {
      ++rejected_[no_memory];
      if (!nearest_ || entry.memory < nearest_->memory) nearest_ = entry;
      continue;
    }
    entry.bounds = bounds.time(candidate);
    entries_.push_back(entry);
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.bounds.estimate_s, a.memory) < std::pair(b.bounds.estimate_s, b.memory);
  });
}

void ClusterSearch::simulate_promising(int budget, std::size_t keep) {
  std::vector<Entry> left;
  for (const Entry& entry : entries_) {
    if (known_not_to_fit(entry.candidate)) {
      ++rejected_[no_memory];
      continue;
    }
    if (const auto broken =
            broken_limit(job_.objective, base_.training, cluster_, entry.bounds.step_time_s)) {
      ++rejected_[*broken];
      limits_decide_ = true;
      continue;
    }
    const bool enough = plans_.size() >= keep;
    if (enough &&
        merit(job_.objective, cluster_, entry.bounds.step_time_s) >
            merit(job_.objective, cluster_, useful_step_time_s(plans_[keep - 1].prediction))) {
      ++rejected_["slower than the plans found (lower bound)"];
    } else if (simulated_ >= budget || built_ >= builds_per_simulation * budget) {
      left.push_back(entry);
    } else {
      evaluate(entry);
    }
  }
  entries_ = std::move(left);
}

// Nothing among the fastest fits: the smallest ones then.
void ClusterSearch::find_any_that_fits() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.memory < b.memory; });
  int attempts = 0;
  std::size_t next = 0;
  for (; next < entries_.size() && simulated_ == 0 && attempts < last_attempts; ++next, ++attempts)
    evaluate(entries_[next]);
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(next));
}

ClusterSearch::Family ClusterSearch::family_of(const Candidate& candidate) {
  return {candidate.pipeline,   candidate.tensor,    candidate.virtual_stages,
          candidate.zero_stage, candidate.recompute, candidate.sequence_parallel,
          candidate.expert,     candidate.compiler};
}

bool ClusterSearch::known_not_to_fit(const Candidate& candidate) const {
  const auto found = too_large_.find(family_of(candidate));
  return found != too_large_.end() && candidate.micro_batch >= found->second;
}

void ClusterSearch::note_miss(const Candidate& candidate, double bytes) {
  ++rejected_[no_memory];
  int& smallest = too_large_.try_emplace(family_of(candidate), candidate.micro_batch).first->second;
  smallest = std::min(smallest, candidate.micro_batch);
  if (!closest_ || bytes < closest_->peak_memory_bytes)
    closest_ = ClosestMiss{to_plan(candidate, base_), machine_, cluster_.hosts, bytes, limit_};
}

// Nothing, and a rejection, where the job's budget for activations is too small for this plan.
std::optional<Prepared> ClusterSearch::build(const Plan& plan) {
  try {
    return prepare(job_.model, plan, cluster_);
  } catch (const BudgetTooSmall&) {
    ++rejected_["training.recompute_budget is too small"];
    return std::nullopt;
  }
}

void ClusterSearch::evaluate(const Entry& entry) {
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
  const Prepared& prepared = *built;
  const double peak = peak_of(stage_memory(prepared.stages, cluster_));
  const auto on_host =
      static_cast<double>(host_memory_bytes(prepared.stages, prepared.plan, cluster_));
  if (peak > limit_) return note_miss(entry.candidate, peak);
  if (on_host > cluster_.machine.host.memory_bytes) {
    ++rejected_["what is offloaded does not fit in the hosts' memory"];
    return;
  }
  ++simulated_;
  RankedPlan ranked{prepared.plan, machine_, cluster_.hosts, cluster_, {}, false};
  ranked.prediction = predict(prepared, cluster_, job_.objective.spot);
  ranked.prediction.goodput =
      goodput_of(prepared, cluster_, job_.checkpoint ? job_.checkpoint->every_steps : 0,
                 ranked.prediction.step_time_s);
  const double step = useful_step_time_s(ranked.prediction);
  if (const auto broken = broken_limit(job_.objective, base_.training, cluster_, step)) {
    ++rejected_[*broken];
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
  if (const auto prepared = build(plan))
    closest_ = ClosestMiss{plan, machine_, cluster_.hosts,
                           peak_of(stage_memory(prepared->stages, cluster_)), limit_};
}

}  // namespace meshwright
