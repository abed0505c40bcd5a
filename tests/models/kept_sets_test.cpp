// Tests the best choices of saved tensors of a unit (its frontier) against all choices, simulated
// step by step.
#include "models/compiler/passes/dataflow/kept_sets.h"

#include <algorithm>
#include <functional>
#include <random>
#include <tuple>
#include <vector>

#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("a unit's frontier has every choice worth making", "[models][recompute]") {
  // x makes a (10 bytes), and a makes b (20 bytes). The backward phase reads b, then a. If both are
  // recomputed, a is made first and is live together with b.
  KeptProblem problem;
  problem.items = {{8, false}, {10, true}, {20, true}};
  problem.steps = {{5, {0}, {1}}, {1, {1}, {2}}};
  problem.backward = {{2}, {1}};
  const auto numbers = [](const KeptSet& set) {
    return std::tuple(set.kept, set.working, set.cost);
  };
  const KeptSets sets(problem);
  REQUIRE(sets.frontier().size() == 4);
  CHECK(numbers(sets.unlimited()) == std::tuple(30, 0, 0));
  CHECK(numbers(sets.frontier()[0]) == std::tuple(30, 0, 0));
  CHECK(numbers(sets.frontier()[1]) == std::tuple(10, 20, 1));
  CHECK(numbers(sets.frontier()[2]) == std::tuple(20 + 8, 10, 5));  // x is saved to recompute a
  CHECK(numbers(sets.frontier()[3]) == std::tuple(8, 30, 6));
  CHECK(sets.made_again(sets.frontier()[1]) == std::vector<char>{0, 0, 1});
}

namespace {

// Returns a random problem of steps with one tensor each. Step i makes item i + 1 from one or two
// earlier items, and item 0 comes from outside.
KeptProblem random_problem(int steps, std::mt19937& random) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  KeptProblem problem;
  problem.items = {{8 + below(8), false}};
  for (int i = 0; i < steps; ++i) {
    KeptProblem::Step step{static_cast<double>(below(6) * below(6)), {i - below(i + 1) / 2}, {}};
    step.makes = {i + 1};
    if (const int other = below(i + 1); other != step.reads[0]) step.reads.push_back(other);
    problem.steps.push_back(step);
    problem.items.push_back({1 + below(20), below(2) == 0});
  }
  problem.items.back().needed = true;
  for (int i = steps; i > 0; --i)
    if (problem.items[static_cast<std::size_t>(i)].needed) problem.backward.push_back({i});
  std::swap(
      problem.backward.front(),
      problem.backward[static_cast<std::size_t>(below(static_cast<int>(problem.backward.size())))]);
  return problem;
}

// Returns the cost, the saved bytes and the working bytes (kept_sets.h) if the items that `again`
// marks are recomputed.
KeptSet played(const KeptProblem& problem, const std::vector<char>& again) {
  const std::size_t items = problem.items.size();
  KeptSet result;
  std::vector<char> wanted(items, 0);
  for (std::size_t i = 0; i < items; ++i) wanted[i] = problem.items[i].needed ? 1 : 0;
  for (std::size_t i = items; i-- > 1;)
    if (again[i] != 0) {
      result.cost += problem.steps[i - 1].cost;
      for (int read : problem.steps[i - 1].reads) wanted[static_cast<std::size_t>(read)] = 1;
    }
  for (std::size_t i = 0; i < items; ++i)
    if (wanted[i] != 0 && again[i] == 0) result.kept += problem.items[i].bytes;
  std::vector<std::vector<int>> moments;  // the recomputed items that each step reads or makes
  std::vector<char> made(items, 0);
  const std::function<void(const std::vector<int>&, int)> act = [&](const std::vector<int>& reads,
                                                                    int makes) {
    for (int read : reads) {
      const auto i = static_cast<std::size_t>(read);
      if (again[i] != 0 && made[i] == 0) act(problem.steps[i - 1].reads, read);
    }
    moments.emplace_back();
    for (int read : reads)
      if (again[static_cast<std::size_t>(read)] != 0) moments.back().push_back(read);
    if (makes < 0) return;
    made[static_cast<std::size_t>(makes)] = 1;
    moments.back().push_back(makes);
  };
  for (const std::vector<int>& reads : problem.backward) act(reads, -1);
  for (std::size_t now = 0; now < moments.size(); ++now) {
    std::int64_t live = 0;
    for (int i = 1; i < static_cast<int>(items); ++i) {
      const auto touches = [&](const std::vector<int>& moment) {
        return std::ranges::count(moment, i) > 0;
      };
      const auto middle = moments.begin() + static_cast<std::ptrdiff_t>(now);
      if (std::any_of(moments.begin(), middle + 1, touches) &&
          std::any_of(middle, moments.end(), touches))
        live += problem.items[static_cast<std::size_t>(i)].bytes;
    }
    result.working = std::max(result.working, live);
  }
  return result;
}

}  // namespace

TEST_CASE("no choice of tensors beats a unit's frontier", "[models][recompute]") {
  std::mt19937 random(3);
  const auto covers = [](const KeptSet& a, const KeptSet& b) {
    return a.kept <= b.kept && a.working <= b.working && a.cost <= b.cost;
  };
  for (int turn = 0; turn < 120; ++turn) {
    const int steps = 1 + turn % 8;
    const KeptProblem problem = random_problem(steps, random);
    const KeptSets sets(problem);
    INFO("turn " << turn);
    for (const KeptSet& set : sets.frontier()) {
      const KeptSet same = played(problem, sets.made_again(set));
      CHECK(std::tuple(set.kept, set.working, set.cost) ==
            std::tuple(same.kept, same.working, same.cost));
      for (const KeptSet& other : sets.frontier()) CHECK((&other == &set || !covers(other, set)));
    }
    for (unsigned choice = 0; choice < 1U << steps; ++choice) {
      std::vector<char> again = {0};
      for (int i = 0; i < steps; ++i) again.push_back(static_cast<char>(choice >> i & 1U));
      const KeptSet set = played(problem, again);
      CHECK(std::ranges::any_of(sets.frontier(),
                                [&](const KeptSet& best) { return covers(best, set); }));
    }
  }
}

TEST_CASE("in a unit with very many operations the most expensive ones are not recomputed",
          "[models][recompute]") {
  // A chain of 24 tensors of 100 bytes is read in reverse, and the i-th costs i. At most 20 of
  // them, the cheapest ones, may be recomputed. All others are saved.
  KeptProblem problem;
  problem.items = {{50, false}};
  for (int i = 1; i <= 24; ++i) problem.items.push_back({100, true});
  for (int i = 1; i <= 24; ++i) problem.steps.push_back({static_cast<double>(i), {i - 1}, {i}});
  for (int i = 24; i > 0; --i) problem.backward.push_back({i});
  const KeptSets sets(problem);
  CHECK(sets.unlimited().kept == 2400);
  const KeptSet& last = sets.frontier().back();
  CHECK(last.kept == 450);  // four tensors, and the input of the first
  CHECK(last.cost == 20 * 21 / 2);
}
