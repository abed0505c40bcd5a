// Partitions by the stages that a user gives for module paths, and evenly by blocks.
#include <algorithm>
#include <string>

#include "models/compiler/partition/partition.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

const std::string where = "/parallelism/partition";

// Returns whether `prefix` is a prefix of `path` in whole names: `h.1` is no prefix of `h.12`. The
// empty path is a prefix of all paths.
bool is_prefix(const std::string& prefix, const std::string& path) {
  return prefix.empty() || path == prefix || path.starts_with(prefix + ".");
}

void check_names(const Graph& graph, const std::map<std::string, int>& stage_of, int parts) {
  std::vector<std::string> paths;
  for (const Unit& unit : graph.units) paths.push_back(unit.path);
  for (const auto& [path, stage] : stage_of) {
    if (std::ranges::none_of(paths, [&](const auto& p) { return is_prefix(path, p); })) {
      const std::string near = nearest(path, paths);
      throw InputError(broken(
          where + "/" + path, "names no module that a stage can begin with; {}",
          near.empty() ? "they are " + list_of(paths, "and") : "did you mean '" + near + "'?"));
    }
    if (stage < 0 || stage >= parts)
      throw InputError(
          broken(where + "/" + path, "there is no stage {}; use 0 to {}", stage, parts - 1));
  }
}

void check_order(const Graph& graph, const std::vector<int>& stages, int parts) {
  for (std::size_t u = 1; u < stages.size(); ++u)
    if (stages[u] < stages[u - 1])
      throw InputError(broken(
          where,
          "'{}' is on stage {} but runs after '{}' on stage {}; stages must not fall in order of "
          "execution (a rule of meshwright's, not of SageMaker's library)",
          graph.units[u].path, stages[u], graph.units[u - 1].path, stages[u - 1]));
  for (int stage = 0; stage < parts; ++stage)
    if (std::ranges::count(stages, stage) == 0)
      throw InputError(
          broken(where, "stage {} is empty; give every stage from 0 to {} at least one module",
                 stage, parts - 1));
}

// Returns a part of its own for each block, and another one for the units after the blocks. Units
// before or between blocks join the part of the next block. With `embedding_alone`, those before
// the first block have a part of their own.
std::vector<int> one_by_one(const Graph& graph, bool embedding_alone) {
  const int first = embedding_alone ? 1 : 0;
  std::vector<int> stages;
  int next = first;
  for (const Unit& unit : graph.units)
    stages.push_back(unit.is_block ? next++ : next == first ? 0 : next);
  return stages;
}

}  // namespace

std::vector<int> cut_manually(const Graph& graph, const std::map<std::string, int>& stage_of,
                              int parts, bool every_unit) {
  check_names(graph, stage_of, parts);
  std::vector<int> stages;
  for (const Unit& unit : graph.units) {
    const int before = stages.empty() ? 0 : stages.back();
    int stage = before;
    bool named = false;
    std::size_t longest = 0;
    for (const auto& [path, given] : stage_of)
      if (is_prefix(path, unit.path) && path.size() >= longest) {
        longest = path.size();
        // The stage of the empty path is a default. It never moves a unit to an earlier stage than
        // the unit before it.
        stage = path.empty() ? std::max(given, before) : given;
        named = true;
      }
    if (every_unit && !named)
      throw InputError(
          broken(where, "the saved partition has no stage for '{}'; save it again with this model",
                 unit.path));
    stages.push_back(stage);
  }
  check_order(graph, stages, parts);
  return stages;
}

std::vector<int> cut_evenly(const Graph& graph, int parts) {
  const auto is_block = [](const Unit& unit) { return unit.is_block; };
  const int blocks = static_cast<int>(std::ranges::count_if(graph.units, is_block));
  if (blocks + 2 < parts)
    throw InputError(broken(where,
                            "'even' gives every stage a block, the embedding or the head, but {} "
                            "stages share {} blocks; use at most {} stages",
                            parts, blocks, blocks + 2));
  if (blocks < parts) return one_by_one(graph, parts - blocks == 2);
  const int each = blocks / parts, plain = parts - blocks % parts;  // parts without one more
  std::vector<int> stages;
  int block = 0;
  for (const Unit& unit : graph.units) {
    // The first `plain` parts together have each * plain blocks.
    const int at = std::min(unit.is_block ? block++ : block, blocks - 1);
    const bool before = !unit.is_block && block == 0;
    stages.push_back(before              ? 0
                     : at < each * plain ? at / each
                                         : plain + (at - each * plain) / (each + 1));
  }
  return stages;
}

}  // namespace meshwright::compiler
