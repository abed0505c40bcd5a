// Each unit saves one set of tensors from its frontier. A set has a cost, and it needs bytes that
// are kept from forward to backward and bytes to work in during recomputation. For each bound w on
// the working bytes that some unit can have, this file considers only the sets whose working bytes
// are at most w, and solves a multiple-choice knapsack of budget - w bytes for the kept bytes
// (Kellerer, Pferschy, Pisinger 2004, ch. 11).
//
// With e = chain_tolerance and n units, the result costs at most 1 + e times the least cost C, for
// these reasons. The w of a cheapest choice is among those tried. For it the knapsack counts costs
// in grains g, rounded down, and finds the least sum J of grains exactly, by dynamic programming
// over sums. The cheapest choice has a sum of at most C/g grains, so J*g <= C. The choice that is
// found costs less than (J + n)*g <= C + n*g. With g = e*L/n and a lower bound L <= C, this is at
// most C + e*C. A bound w is left out only if no choice fits, or if the lower bound of its cost is
// no less than the least cost found so far.
#include "models/compiler/passes/dataflow/chain_budget.h"

#include <algorithm>
#include <limits>
#include <map>

namespace meshwright::compiler {

namespace {

constexpr std::int64_t no_bytes = std::numeric_limits<std::int64_t>::max() / 4;
constexpr double no_cost = std::numeric_limits<double>::infinity();

using Frontier = const std::vector<KeptSet>*;

// The sets of a unit that a bound on working bytes allows, by rising cost. `kept` falls as the cost
// rises.
struct Options {
  std::vector<std::size_t> index;  // in the frontier
  std::vector<std::int64_t> kept;
  std::vector<double> cost;
  std::size_t size() const { return index.size(); }
};

Options within(const std::vector<KeptSet>& frontier, std::int64_t working) {
  Options options;
  for (std::size_t i = 0; i < frontier.size(); ++i) {  // by cost
    if (frontier[i].working > working) continue;
    if (!options.kept.empty() && frontier[i].kept >= options.kept.back()) continue;
    options.index.push_back(i);
    options.kept.push_back(frontier[i].kept);
    options.cost.push_back(frontier[i].cost);
  }
  return options;
}

struct Choice {
  std::vector<std::size_t> option;  // per unit
  double cost = no_cost;
  std::size_t grains = 0;  // the smallest sum of grains that fits, in the run that found it
};

class Knapsack {
 public:
  // `units` holds the options of each unit, of which there must be at least one.
  Knapsack(std::vector<const Options*> units, std::int64_t budget)
      : units_(std::move(units)), budget_(budget) {}

  bool fits() const { return kept_of(least_kept()) <= budget_; }

  // Returns a lower bound of the cost: the least cost if a unit might mix its options. It starts
  // with the cheapest options and takes steps along the convex hulls, those that save most bytes
  // per cost first, until enough bytes are saved.
  double lower_bound() const {
    struct Step {
      double bytes, cost;
    };
    std::vector<Step> steps;
    double cost = 0, over = -static_cast<double>(budget_);
    for (const Options* unit : units_) {
      cost += unit->cost[0];
      over += static_cast<double>(unit->kept[0]);
      for (std::size_t i = 0; i + 1 < unit->size();) {
        std::size_t best = i + 1;
        for (std::size_t j = i + 2; j < unit->size(); ++j)
          if (slope(*unit, i, j) >= slope(*unit, i, best)) best = j;
        steps.push_back({static_cast<double>(unit->kept[i] - unit->kept[best]),
                         unit->cost[best] - unit->cost[i]});
        i = best;
      }
    }
    std::ranges::sort(
        steps, [](const Step& a, const Step& b) { return a.bytes * b.cost > b.bytes * a.cost; });
    for (const Step& step : steps) {
      if (over <= 0) break;
      cost += step.cost * std::min(1.0, over / step.bytes);
      over -= step.bytes;
    }
    return std::max(cost, least_positive());
  }

  // Returns a choice that costs at most 1 + chain_tolerance times the least cost. `lower` is a
  // lower bound of the least cost. If the kept bytes of the cheapest options are within the budget,
  // it returns these. Otherwise runs that count costs in coarse grains first bound the least cost
  // to within a factor of two, and one run with fine grains follows.
  Choice solve(double lower) const {
    Choice best = cheapest();
    if (kept_of(best) <= budget_) return best;
    best = least_kept();
    const double units = static_cast<double>(units_.size());
    while (best.cost > 2 * lower) {
      const double grain = best.cost / (8 * units);
      lower = std::max(lower, grain * take_better(run(grain, best.cost), best));
    }
    take_better(run(chain_tolerance * lower / units, best.cost), best);
    return best;
  }

 private:
  static double slope(const Options& unit, std::size_t i, std::size_t j) {
    const double cost = unit.cost[j] - unit.cost[i];
    return cost > 0 ? static_cast<double>(unit.kept[i] - unit.kept[j]) / cost : no_cost;
  }

  // Returns a lower bound of the cost. If the cheapest options do not fit, some unit has to take
  // one that costs more.
  double least_positive() const {
    std::int64_t kept = 0;
    double cost = 0, step = no_cost;
    for (const Options* unit : units_) {
      kept += unit->kept[0];
      cost += unit->cost[0];
      if (unit->size() > 1) step = std::min(step, unit->cost[1] - unit->cost[0]);
    }
    return kept <= budget_ ? cost : cost + step;
  }

  Choice cheapest() const {
    Choice choice;
    choice.option.assign(units_.size(), 0);
    choice.cost = cost_of(choice);
    return choice;
  }
  Choice least_kept() const {
    Choice choice;
    for (const Options* unit : units_) choice.option.push_back(unit->size() - 1);
    choice.cost = cost_of(choice);
    return choice;
  }

  double cost_of(const Choice& choice) const {
    double cost = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) cost += units_[u]->cost[choice.option[u]];
    return cost;
  }
  std::int64_t kept_of(const Choice& choice) const {
    std::int64_t kept = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) kept += units_[u]->kept[choice.option[u]];
    return kept;
  }

  static double take_better(Choice found, Choice& best) {
    const double grains = static_cast<double>(found.grains);
    if (found.cost < best.cost) best = std::move(found);
    return grains;
  }

  // Finds the least kept bytes for every sum of grains up to the cost `most`, and returns a choice
  // with the smallest sum that fits. If none fits, the choice has no options, and its cost is
  // no_cost.
  Choice run(double grain, double most) const {
    const auto sums = static_cast<std::size_t>(most / grain) + 1;
    std::vector<std::int64_t> bytes(sums, no_bytes), before;
    bytes[0] = 0;
    std::vector<std::vector<std::uint32_t>> taken(units_.size(),
                                                  std::vector<std::uint32_t>(sums, 0));
    for (std::size_t u = 0; u < units_.size(); ++u) {
      before.assign(sums, no_bytes);
      std::swap(before, bytes);
      for (std::size_t i = 0; i < units_[u]->size(); ++i) {
        const auto grains = static_cast<std::size_t>(units_[u]->cost[i] / grain);
        for (std::size_t s = grains; s < sums; ++s) {
          const std::int64_t kept = before[s - grains] + units_[u]->kept[i];
          if (kept >= bytes[s]) continue;
          bytes[s] = kept;
          taken[u][s] = static_cast<std::uint32_t>(i);
        }
      }
    }
    std::size_t sum = 0;
    while (sum < sums && bytes[sum] > budget_) ++sum;
    Choice choice;
    choice.grains = sum;
    if (sum == sums) return choice;
    choice.option.resize(units_.size());
    std::size_t rest = sum;
    for (std::size_t u = units_.size(); u-- > 0;) {
      choice.option[u] = taken[u][rest];
      rest -= static_cast<std::size_t>(units_[u]->cost[choice.option[u]] / grain);
    }
    choice.cost = cost_of(choice);
    return choice;
  }

  std::vector<const Options*> units_;
  std::int64_t budget_;
};

std::vector<std::int64_t> working_bounds(std::span<const Frontier> frontiers) {
  std::vector<std::int64_t> bounds;
  for (Frontier frontier : frontiers)
    for (const KeptSet& set : *frontier) bounds.push_back(set.working);
  std::ranges::sort(bounds);
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

// Holds the options of all units under one bound on working bytes. Equal units share a frontier,
// and so its options.
struct Bounded {
  std::map<Frontier, Options> of;
  std::vector<const Options*> units;
  bool possible = true;  // every unit has at least one option
};

Bounded bounded(std::span<const Frontier> frontiers, std::int64_t working) {
  Bounded result;
  for (Frontier frontier : frontiers) {
    const auto [found, is_new] = result.of.try_emplace(frontier);
    if (is_new) found->second = within(*frontier, working);
    result.units.push_back(&found->second);
    result.possible = result.possible && found->second.size() > 0;
  }
  return result;
}

}  // namespace

std::optional<std::vector<std::size_t>> choose_along_chain(std::span<const Frontier> frontiers,
                                                           std::int64_t budget) {
  struct Case {
    std::int64_t working;
    double lower;
  };
  std::vector<Case> cases;
  for (const std::int64_t working : working_bounds(frontiers)) {
    const Bounded options = bounded(frontiers, working);
    if (!options.possible) continue;
    const Knapsack knapsack(options.units, budget - working);
    if (knapsack.fits()) cases.push_back({working, knapsack.lower_bound()});
  }
  std::ranges::stable_sort(cases, {}, &Case::lower);
  std::optional<std::vector<std::size_t>> chosen;
  double least = no_cost;
  for (const Case& each : cases) {
    if (each.lower >= least) break;
    const Bounded options = bounded(frontiers, each.working);
    const Knapsack knapsack(options.units, budget - each.working);
    const Choice found = knapsack.solve(each.lower);
    if (found.cost >= least) continue;
    least = found.cost;
    chosen.emplace();
    for (std::size_t u = 0; u < frontiers.size(); ++u)
      chosen->push_back(options.units[u]->index[found.option[u]]);
  }
  return chosen;
}

std::int64_t least_budget(std::span<const Frontier> frontiers) {
  std::int64_t least = no_bytes;
  for (const std::int64_t working : working_bounds(frontiers)) {
    const Bounded options = bounded(frontiers, working);
    if (!options.possible) continue;
    std::int64_t kept = 0;
    for (const Options* unit : options.units) kept += unit->kept.back();
    least = std::min(least, kept + working);
  }
  return least;
}

}  // namespace meshwright::compiler
