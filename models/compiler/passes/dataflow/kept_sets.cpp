#include "models/compiler/passes/dataflow/kept_sets.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace meshwright::compiler {

namespace {

// The most options of which all subsets are tried. If there are more groups, those that cost most
// per byte are never recomputed.
constexpr int most_options = 20;
// Number of first groups that find_frontier() leaves undecided at first, so that one set stands for
// all sets that differ in them.
constexpr int open_groups = 4;
constexpr std::size_t sets_of_slice = 1024;

// Holds the added sets that no other one equals or beats in both kept and working bytes.
class Staircase {
 public:
  bool beats(const KeptSet& set) const {
    const auto after = std::ranges::upper_bound(steps_, set.kept, {}, &Step::kept);
    return after != steps_.begin() && std::prev(after)->working <= set.working;
  }
  void add(const KeptSet& set) {  // `set` must not be beaten by another
    const auto from = std::ranges::lower_bound(steps_, set.kept, {}, &Step::kept);
    const auto to = std::find_if(from, steps_.end(),
                                 [&](const Step& step) { return step.working < set.working; });
    steps_.insert(steps_.erase(from, to), {set.kept, set.working});
  }

 private:
  struct Step {
    std::int64_t kept = 0, working = 0;
  };
  std::vector<Step> steps_;  // kept rises, working falls
};

}  // namespace

KeptSets::KeptSets(const KeptProblem& problem)
    : problem_(problem), maker_(problem.items.size(), -1), readers_(problem.items.size()) {
  for (std::size_t s = 0; s < problem.steps.size(); ++s) {
    joined_.push_back(static_cast<int>(s));
    for (int item : problem.steps[s].makes) maker_[item] = static_cast<int>(s);
    for (int item : problem.steps[s].reads) readers_[item].push_back(static_cast<int>(s));
  }
  join_steps();
  number_options();
  find_frontier();
}

int KeptSets::group_of(int step) const {
  while (joined_[step] != step) step = joined_[step];
  return step;
}

// Joins a step n with a step m if they are best repeated together. This is so if only one result t
// of n is used outside n, only m reads t, t is not read in the backward phase, and the results of m
// that are used outside take no more bytes than t. To repeat n without m is then useless. To keep t
// in order to repeat only m is no better than to keep the results of m. Steps that are repeated in
// any case are not joined.
void KeptSets::join_steps() {
  const auto seen_outside = [&](int item, int group) {
    return std::ranges::any_of(readers_[item], [&](int step) { return group_of(step) != group; });
  };
  const auto shown = [&](int group) {
    std::vector<int> items;
    for (int item = 0; item < static_cast<int>(problem_.items.size()); ++item)
      if (maker_[item] >= 0 && group_of(maker_[item]) == group &&
          (problem_.items[item].needed || seen_outside(item, group)))
        items.push_back(item);
    return items;
  };
  const auto join = [&](int n) {
    const std::vector<int> results = shown(n);
    if (results.size() != 1 || problem_.items[results[0]].needed) return false;
    std::set<int> users;
    for (int step : readers_[results[0]]) users.insert(group_of(step));
    users.erase(n);
    if (users.size() != 1) return false;
    const int m = *users.begin();
    if (problem_.steps[n].always || problem_.steps[m].always) return false;
    std::int64_t bytes = 0;
    for (int item : shown(m)) bytes += problem_.items[item].bytes;
    if (bytes > problem_.items[results[0]].bytes) return false;
    joined_[n] = m;
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int s = 0; s < static_cast<int>(problem_.steps.size()); ++s)
      if (group_of(s) == s && join(s)) changed = true;
  }
}

// Numbers the options, which are bits of KeptSet::options. Each group that limit_options() leaves
// has a bit, which is set if the group is repeated. A step that makes several items (attention with
// its score matrix), and is not repeated in any case, has one more bit if the backward reads the
// first item, and reads others that together have more than a sixteenth of the first one's bytes.
// This bit is set if the first item is kept although the step is repeated, so that the others are
// recomputed as late as possible. Steps get such bits only while there are fewer than most_options
// options.
void KeptSets::number_options() {
  for (int s = 0; s < static_cast<int>(problem_.steps.size()); ++s)
    if (group_of(s) == s) groups_.push_back(s);
  limit_options();
  bit_.assign(problem_.steps.size(), 0);
  group_cost_.clear();
  for (int group : groups_) {
    const std::uint32_t bit = 1U << options_++;
    if (problem_.steps[group].always) always_ |= bit;
    double cost = 0;
    for (int s = 0; s < static_cast<int>(problem_.steps.size()); ++s)
      if (group_of(s) == group) {
        bit_[s] = bit;
        if (!problem_.steps[s].always) cost += problem_.steps[s].cost;
      }
    group_cost_.push_back(cost);
  }
  for (std::size_t i = 0; i < problem_.items.size(); ++i) {
    Charge charge{problem_.items[i].bytes, 0, 0, 0, problem_.items[i].needed};
    if (maker_[i] >= 0) charge.maker = bit_[maker_[i]];
    for (int reader : readers_[i]) charge.readers |= bit_[reader];
    charge.readers &= ~charge.maker;
    charges_.push_back(charge);
  }
  for (const KeptProblem::Step& step : problem_.steps) {
    if (step.makes.size() < 2 || step.always || options_ >= most_options) continue;
    const KeptProblem::Item& first = problem_.items[step.makes[0]];
    std::int64_t others = 0;
    for (std::size_t i = 1; i < step.makes.size(); ++i)
      if (problem_.items[step.makes[i]].needed) others += problem_.items[step.makes[i]].bytes;
    if (first.needed && others > first.bytes / 16)
      charges_[step.makes[0]].kept_anyway = 1U << options_++;
  }
  made_by_.resize(groups_.size());
  taken_by_.resize(groups_.size());
  for (const Charge& charge : charges_)
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (charge.maker == 1U << g) made_by_[g].push_back(charge);
      if (charge.maker == 0 && (charge.readers & 1U << g) != 0) taken_by_[g].push_back(charge);
    }
}

void KeptSets::limit_options() {
  const auto cost_per_byte = [&](int group) {
    double cost = 0, bytes = 1;
    for (int s = 0; s < static_cast<int>(problem_.steps.size()); ++s) {
      if (group_of(s) != group) continue;
      cost += problem_.steps[s].cost;
      for (int item : problem_.steps[s].makes)
        bytes += static_cast<double>(problem_.items[item].bytes);
    }
    return problem_.steps[group].always ? -1 : cost / bytes;
  };
  while (groups_.size() > most_options)
    groups_.erase(std::ranges::max_element(groups_, {}, cost_per_byte));
}

// Adds to `all` the sets that complete `set`, in which every repeated group has a reader or is
// repeated in any case. `set` has decided the groups from `undecided` on, and this function decides
// groups `first` to `undecided` - 1, from the last to the first. When it decides a group, it
// already knows which later groups read that group's results, and so which of the results are kept.
void KeptSets::list_sets(int first, int undecided, const KeptSet& set,
                         std::vector<KeptSet>& all) const {
  if (undecided == first) {
    all.push_back(set);
    all.back().cost = cost_of(set.options);
    return;
  }
  const int group = undecided - 1;
  const std::uint32_t bit = 1U << group;
  const auto is_read = [&](const Charge& charge) {
    return charge.needed || (set.options & charge.readers) != 0;
  };
  if ((always_ & bit) == 0) {
    KeptSet kept = set;
    for (const Charge& charge : made_by_[group])
      if (is_read(charge)) kept.kept += charge.bytes;
    list_sets(first, group, kept, all);
  }
  KeptSet again = set;
  again.options |= bit;
  for (const Charge& charge : taken_by_[group])
    if (!is_read(charge)) again.kept += charge.bytes;
  std::uint32_t small = 0;
  for (const Charge& charge : made_by_[group]) small |= charge.kept_anyway;
  for (std::uint32_t anyway = small;; anyway = (anyway - 1) & small) {
    KeptSet each = again;
    each.options |= anyway;
    bool useful = (always_ & bit) != 0;
    for (const Charge& charge : made_by_[group])
      if ((charge.kept_anyway & anyway) != 0)
        each.kept += charge.bytes;
      else if (is_read(charge)) {
        each.working = std::max(each.working, charge.bytes);
        useful = true;
      }
    if (useful) list_sets(first, group, each, all);
    if (anyway == 0) break;
  }
}

bool KeptSets::is_again(int item, std::uint32_t options) const {
  const Charge& charge = charges_[item];
  return (options & charge.maker) != 0 && (options & charge.kept_anyway) == 0;
}

std::int64_t KeptSets::kept_bytes(std::uint32_t options) const {
  std::int64_t bytes = 0;
  for (const Charge& charge : charges_) {
    const bool again = (options & charge.maker) != 0;
    const bool kept = again ? (options & charge.kept_anyway) != 0
                            : charge.needed || (options & charge.readers) != 0;
    if (kept) bytes += charge.bytes;
  }
  return bytes;
}

double KeptSets::cost_of(std::uint32_t options) const {
  double cost = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if ((options & (1U << g)) != 0) cost += group_cost_[g];
  return cost;
}

// Returns the most bytes of recomputed items that are live at one time. Simulates the backward
// phase in the order of rematerialize_tensors(): a recomputed item is live from the step that makes
// it to its last reader, both included.
std::int64_t KeptSets::working_bytes(std::uint32_t options) const {
  const std::size_t items = problem_.items.size();
  std::vector<int> born(items, -1), last(items, -1);
  int time = 0;
  const auto make = [&](const auto& self, int step) -> void {
    for (int item : problem_.steps[step].reads)
      if (is_again(item, options) && born[item] < 0) self(self, maker_[item]);
    ++time;
    for (int item : problem_.steps[step].reads)
      if (is_again(item, options)) last[item] = time;
    for (int item : problem_.steps[step].makes) born[item] = last[item] = time;
  };
  for (const std::vector<int>& reads : problem_.backward) {
    for (int item : reads)
      if (is_again(item, options) && born[item] < 0) make(make, maker_[item]);
    ++time;
    for (int item : reads)
      if (is_again(item, options)) last[item] = time;
  }
  std::vector<std::int64_t> change(time + 2, 0);
  for (std::size_t i = 0; i < items; ++i)
    if (born[i] >= 0) {
      change[born[i]] += problem_.items[i].bytes;
      change[last[i] + 1] -= problem_.items[i].bytes;
    }
  std::int64_t live = 0, most = 0;
  for (std::int64_t each : change) most = std::max(most, live += each);
  return most;
}

// Fills the frontier in the order of cost, a slice of sets at a time. A set belongs to it if it
// needs fewer working bytes than all cheaper sets that keep no more.
//
// Repeating the first groups of a unit changes neither the order in which later groups are repeated
// nor how long their results live, which depends on their readers only. So the working bytes of a
// set that repeats none of the first groups are a lower bound for all sets that differ from it only
// in the first groups. This bound rules most of them out.
void KeptSets::find_frontier() {
  const auto groups = static_cast<int>(groups_.size());
  const int first = std::min(groups, open_groups);
  KeptSet none;
  for (const Charge& charge : charges_)
    if (charge.maker == 0 && charge.needed) none.kept += charge.bytes;
  std::vector<KeptSet> begun;
  list_sets(first, groups, none, begun);
  for (KeptSet& set : begun) set.working = working_bytes(set.options);
  std::ranges::sort(begun, {}, &KeptSet::cost);
  // The costs at which slices end, such that about the same number of sets begins in each.
  std::vector<double> ends;
  for (std::size_t end = sets_of_slice; end < begun.size(); end += sets_of_slice)
    ends.push_back(begun[end].cost);
  std::vector<std::vector<KeptSet>> slices(ends.size() + 1);
  Staircase found;
  auto next = begun.begin();
  std::vector<KeptSet> sets;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    for (; next != begun.end() && (i == ends.size() || next->cost < ends[i]); ++next) {
      if (found.beats(*next)) continue;
      sets.clear();
      list_sets(0, first, *next, sets);
      for (const KeptSet& set : sets) {
        if (found.beats(set)) continue;
        const auto slice = std::ranges::upper_bound(ends, set.cost) - ends.begin();
        slices[slice].push_back(set);
      }
    }
    std::vector<KeptSet> slice = std::move(slices[i]);
    std::erase_if(slice, [&](const KeptSet& set) { return found.beats(set); });
    std::ranges::sort(slice, [](const KeptSet& a, const KeptSet& b) {
      return std::tie(a.cost, a.kept, a.options) < std::tie(b.cost, b.kept, b.options);
    });
    for (KeptSet& set : slice) {
      if (found.beats(set)) continue;
      set.working = working_bytes(set.options);
      if (found.beats(set)) continue;
      found.add(set);
      if (!frontier_.empty() && frontier_.back().cost == set.cost &&
          frontier_.back().kept == set.kept)
        frontier_.back() = set;
      else
        frontier_.push_back(set);
    }
  }
}

KeptSet KeptSets::unlimited() const {
  return {kept_bytes(always_), working_bytes(always_), 0, always_};
}

std::vector<char> KeptSets::made_again(const KeptSet& set) const {
  std::vector<char> again;
  for (int item = 0; item < static_cast<int>(problem_.items.size()); ++item)
    again.push_back(is_again(item, set.options) ? 1 : 0);
  return again;
}

}  // namespace meshwright::compiler
