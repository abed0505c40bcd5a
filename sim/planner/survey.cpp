#include "sim/planner/survey.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <mutex>

#include "sim/planner/in_parallel.h"

namespace meshwright::sim {

namespace {

constexpr std::size_t closely_bounded_usual_plans = 1024, bounded_at_once = 256;
// Number of plans that a survey keeps. Of the others it only keeps their number and their lowest
// bound.
constexpr std::size_t most_entries = 25'000;

// Returns the usual part of a branch, which a user would begin with: activations are not offloaded,
// no plan recomputes only a share of the blocks, states are sharded over all replicas if at all,
// and the placement is the first that is allowed.
Branch usual_part(const Branch& whole) {
  Branch branch = whole;
  branch.placements.resize(1);
  branch.savings.clear(), branch.shardings.clear();
  branch.cut_takes_saving.clear(), branch.cut_takes_sharding.clear();
  const auto is_usual = [](const Saving& each) {
    return each.recompute_fraction == 1 &&
           (each.offload == Offload::none || each.offload == Offload::optimizer);
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

// A survivor of the sweep, with the index of its branch and its number within the branch.
struct Found {
  Swept::Survivor survivor;
  std::pair<std::size_t, std::size_t> place;
};

bool is_faster(const Found& a, const Found& b) {
  return std::pair(a.survivor.step_time_s, a.place) < std::pair(b.survivor.step_time_s, b.place);
}

void keep_fastest(std::vector<Found>& found, std::size_t most) {
  if (found.size() <= most) return;
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(found.begin(), end, found.end(), is_faster);
  found.erase(end, found.end());
}

// Bounds a plan closely, and adds it to the entries or to the counts of `result`. If a plan is too
// slow, its memory is not bounded.
void bound_closely(Entry entry, const SurveyLimits& limits, BoundMaker& bounds, Surveyed& result) {
  const auto turn_away = [&](double seconds) {
    ++(seconds > limits.deadline_s ? result.too_late : result.too_slow);
  };
  const auto is_too_slow = [&](double seconds) {
    if (seconds > limits.step_time_s) turn_away(seconds);
    return seconds > limits.step_time_s;
  };
  // can_end_within() rounds differently from time_of_any_partition(), so the bound of a plan that
  // it prunes may equal the limit.
  if (!bounds.can_end_within(entry.candidate, limits.step_time_s))
    return turn_away(bounds.time_of_any_partition(entry.candidate).step_time_s);
  entry.bounds = bounds.time(entry.candidate);
  if (is_too_slow(entry.bounds.step_time_s)) return;
  entry.memory = bounds.memory(entry.candidate);
  if (entry.memory.least_bytes > limits.memory_bytes) {
    ++result.too_large;
    if (entry.memory.least_bytes < result.nearest.bytes)
      result.nearest = {entry.memory.least_bytes, entry.place, entry.candidate};
    return;
  }
  if (entry.bounds.step_time_s < limits.best_step_time_s) {
    const double closer = bounds.pipeline_time(entry.candidate);
    entry.bounds.step_time_s = std::max(entry.bounds.step_time_s, closer);
    if (closer > 0) entry.bounds.estimate_s = std::max(entry.bounds.step_time_s, closer);
    if (is_too_slow(entry.bounds.step_time_s)) return;
  }
  result.entries.push_back(std::move(entry));
}

Surveyed survey(const Branch& branch, std::size_t place, const SurveyLimits& limits,
                std::span<const Candidate> done, BoundMaker& bounds) {
  Swept swept;
  sweep(branch, bounds, {limits.memory_bytes, limits.step_time_s}, swept);
  Surveyed result;
  result.lost = swept.lost;
  if (swept.nearest_bytes > 0) result.nearest = {swept.nearest_bytes, {place, 0}, swept.nearest};
  for (std::size_t i = 0; i < swept.survivors.size(); ++i) {
    const Candidate& candidate = swept.survivors[i].candidate;
    if (std::find(done.begin(), done.end(), candidate) == done.end())
      bound_closely({candidate, {}, {}, {place, i}}, limits, bounds, result);
  }
  return result;
}

}  // namespace

void Surveyed::add(Surveyed other) {
  for (std::size_t loss = 0; loss < lost.size(); ++loss) lost[loss] += other.lost[loss];
  too_late += other.too_late, too_slow += other.too_slow, too_large += other.too_large;
  left += other.left, left_s = std::min(left_s, other.left_s);
  if (std::pair(other.nearest.bytes, other.nearest.place) < std::pair(nearest.bytes, nearest.place))
    nearest = other.nearest;
  std::ranges::move(other.entries, std::back_inserter(entries));
  if (entries.size() > 2 * most_entries) leave_slowest(most_entries);
}

void Surveyed::leave_slowest(std::size_t most) {
  if (entries.size() <= most) return;
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(entries.begin(), middle, entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.bounds.step_time_s, a.place) < std::pair(b.bounds.step_time_s, b.place);
  });
  left += std::distance(middle, entries.end());
  for (auto slow = middle; slow != entries.end(); ++slow)
    left_s = std::min(left_s, slow->bounds.step_time_s);
  entries.erase(middle, entries.end());
}

Surveyor::Surveyor(const Model& model, const Plan& base, const Cluster& cluster,
                   std::shared_ptr<ModelProfiles> profiles, int threads) {
  makers_.emplace_back(model, base, cluster, std::move(profiles));
  while (std::ssize(makers_) < threads) makers_.push_back(makers_.front().for_another_thread());
}

std::vector<Entry> Surveyor::usual(const Space& space, const SurveyLimits& limits,
                                   const std::function<void()>& told) {
  const int threads = static_cast<int>(makers_.size());
  std::mutex mutex;
  std::atomic<bool> is_ended = false;  // `told` has thrown, so the rest is not looked at
  const auto go_on = [&] {
    if (is_ended) return false;
    const std::lock_guard lock(mutex);
    try {
      if (told) told();
    } catch (...) {
      is_ended = true;
      throw;
    }
    return true;
  };
  std::vector<Found> found;
  in_parallel(space.branches.size(), threads, [&](std::size_t place, std::size_t thread) {
    if (!go_on()) return;
    const Branch part = usual_part(space.branches[place]);
    if (part.savings.empty() || part.shardings.empty()) return;
    Swept swept;
    sweep(part, makers_[thread], {std::numeric_limits<double>::infinity(), limits.step_time_s},
          swept);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < swept.survivors.size(); ++i)
      found.push_back({swept.survivors[i], {place, i}});
    if (found.size() > 2 * most_entries) keep_fastest(found, most_entries);
  });
  keep_fastest(found, most_entries);
  std::sort(found.begin(), found.end(), is_faster);
  std::vector<Entry> entries;
  for (std::size_t begin = 0; begin < found.size() && entries.size() < closely_bounded_usual_plans;
       begin += bounded_at_once) {
    const std::size_t count = std::min(bounded_at_once, found.size() - begin);
    std::vector<Entry> some(count);
    in_parallel(count, threads, [&](std::size_t i, std::size_t thread) {
      if (!go_on()) return;
      const auto& [survivor, place] = found[begin + i];
      BoundMaker& bounds = makers_[thread];
      some[i] = {survivor.candidate, bounds.memory(survivor.candidate),
                 bounds.time(survivor.candidate), place};
    });
    std::copy_if(some.begin(), some.end(), std::back_inserter(entries), [&](const Entry& entry) {
      return entry.memory.likely_bytes <= limits.memory_bytes;
    });
  }
  return entries;
}

Surveyed Surveyor::all(const Space& space, const SurveyLimits& limits,
                       std::span<const Candidate> done,
                       const std::function<void(std::size_t)>& told) {
  std::mutex mutex;
  Surveyed result;
  std::size_t branches = 0;
  std::atomic<bool> is_ended = false;  // `told` has thrown, so the rest is not looked at
  in_parallel(space.branches.size(), static_cast<int>(makers_.size()),
              [&](std::size_t place, std::size_t thread) {
                if (is_ended) return;
                Surveyed of_branch =
                    survey(space.branches[place], place, limits, done, makers_[thread]);
                const std::lock_guard lock(mutex);
                result.add(std::move(of_branch));
                try {
                  if (told) told(++branches);
                } catch (...) {
                  is_ended = true;
                  throw;
                }
              });
  result.leave_slowest(most_entries);
  std::sort(result.entries.begin(), result.entries.end(),
            [](const Entry& a, const Entry& b) { return a.place < b.place; });
  for (const Candidate& candidate : done) {  // Plans that were tried before are counted elsewhere.
    Swept own;
    sweep(only(candidate), bounds(), {limits.memory_bytes, limits.step_time_s}, own);
    for (std::size_t loss = 0; loss < own.lost.size(); ++loss) result.lost[loss] -= own.lost[loss];
  }
  return result;
}

}  // namespace meshwright::sim
