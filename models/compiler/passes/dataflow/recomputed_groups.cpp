#include "models/compiler/passes/dataflow/recomputed_groups.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

// Returns for each unit whether it is a block that is recomputed. Block i is recomputed if (i + 1)
// * fraction reaches a whole number that i * fraction has not reached, so these blocks are evenly
// spread.
std::vector<char> chosen_units(const Graph& graph, double fraction) {
  std::vector<char> chosen(graph.units.size(), 0);
  int block = 0;
  for (std::size_t unit = 0; unit < graph.units.size(); ++unit) {
    if (!graph.units[unit].holds_layer()) continue;
    constexpr double rounding = 1e-9;
    chosen[unit] =
        std::floor((block + 1) * fraction + rounding) > std::floor(block * fraction + rounding);
    ++block;
  }
  return chosen;
}

// Returns the maximum number of consecutive blocks of a stage that are recomputed as one group.
int blocks_per_group(const Training& training) {
  if (training.recompute == Recompute::contiguous) return std::numeric_limits<int>::max();
  return training.recompute == Recompute::group ? training.recompute_group : 1;
}

std::vector<int> groups_of_units(const Graph& graph, const Plan& plan) {
  std::vector<int> groups(graph.units.size(), -1);
  if (plan.training.recompute == Recompute::none) return groups;
  const std::vector<char> chosen = chosen_units(graph, plan.training.recompute_fraction);
  const bool partitioned = plan.stage_of_unit.size() == graph.units.size();
  const int most = blocks_per_group(plan.training);
  int group = -1, size = 0;
  for (std::size_t unit = 0; unit < groups.size(); ++unit) {
    if (!chosen[unit]) continue;
    const bool goes_on = unit > 0 && chosen[unit - 1] && size < most &&
                         (!partitioned || plan.stage_of_unit[unit] == plan.stage_of_unit[unit - 1]);
    group += goes_on ? 0 : 1;
    size = goes_on ? size + 1 : 1;
    groups[unit] = group;
  }
  return groups;
}

// Returns whether selective recomputation repeats the node: operations on attention's score matrix.
// Fused kernels save no scores, so repeating them would save nothing.
bool is_selected(const Node& node) {
  return node.attributes.attention == AttentionKernel::unfused && info(node.op).of_scores;
}

std::string_view first_name(std::string_view path) { return path.substr(0, path.find('.')); }
std::string_view after_first_name(std::string_view path) {
  const std::size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
}

// Returns the length of the prefix of `path` that the pattern matches name by name, or 0 if it does
// not match. `*` matches any one name.
std::size_t named_by(std::string_view pattern, std::string_view path) {
  const std::string_view whole = path;
  while (!pattern.empty()) {
    if (path.empty()) return 0;
    const std::string_view wanted = first_name(pattern);
    if (wanted != "*" && wanted != first_name(path)) return 0;
    pattern = after_first_name(pattern);
    path = after_first_name(path);
  }
  return whole.size() - path.size() - (path.empty() ? 0 : 1);
}

[[noreturn]] void refuse(const Graph& graph, std::size_t index, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const Module& module : graph.modules)
    if (graph.units[module.unit].holds_layer()) paths.push_back(module.path);
  const std::string near = nearest(pattern, paths);
  throw InputError(broken(
      "/training/recompute_modules/" + std::to_string(index), "'{}' names no module of a block; {}",
      pattern,
      near.empty() ? "use paths such as '" + paths.front() + "'" : "did you mean '" + near + "'?"));
}

// Returns for every module its group, or -1. A group is a module that the list names, with the
// modules inside it. If a module and a part of it are named, they are one group, that of the
// module. A name that matches in several blocks makes a group in each of them. Throws InputError if
// a name matches no module of a block.
std::vector<int> groups_of_modules(const Graph& graph, const std::vector<std::string>& patterns) {
  std::vector<int> groups(graph.modules.size(), -1);
  std::vector<char> used(patterns.size(), 0);
  std::map<std::pair<int, std::string_view>, int> found;
  for (std::size_t m = 0; m < groups.size(); ++m) {
    const Module& module = graph.modules[m];
    if (!graph.units[module.unit].holds_layer()) continue;
    std::size_t shortest = 0;
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      const std::size_t length = named_by(patterns[p], module.path);
      if (length == 0) continue;
      used[p] = 1;
      if (shortest == 0 || length < shortest) shortest = length;
    }
    if (shortest == 0) continue;
    const std::string_view name = std::string_view(module.path).substr(0, shortest);
    groups[m] =
        found.try_emplace({module.unit, name}, static_cast<int>(found.size())).first->second;
  }
  for (std::size_t p = 0; p < patterns.size(); ++p)
    if (!used[p]) refuse(graph, p, patterns[p]);
  return groups;
}

}  // namespace

bool groups_follow_stages(const Training& training) {
  return training.recompute == Recompute::contiguous || training.recompute == Recompute::group ||
         training.recompute_budget.has_value();
}

std::vector<int> recomputed_groups(const Graph& graph, const Plan& plan) {
  const Training& training = plan.training;
  const bool by_module = !training.recompute_modules.empty();
  const std::vector<int> groups = by_module ? groups_of_modules(graph, training.recompute_modules)
                                            : groups_of_units(graph, plan);
  std::vector<int> of_node;
  of_node.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    const int index = by_module ? node.module : graph.unit_of(node);
    const bool repeated = training.recompute != Recompute::selective || is_selected(node);
    of_node.push_back(repeated ? groups[index] : -1);
  }
  return of_node;
}

}  // namespace meshwright::compiler
