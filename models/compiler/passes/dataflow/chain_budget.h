// A choice for each unit of a chain under one budget of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/compiler/passes/dataflow/kept_sets.h"

namespace meshwright {

// The frontiers of the units, in any order. Chooses a set of each (index into its frontier) with
// sum of kept + largest working <= budget, bytes, such that the sum of costs is at most
// (1 + chain_tolerance) times the least; nothing where no choice fits. Equal to the least, or below
// it, is what the sets that keep least cost.
constexpr double chain_tolerance = 0.01;
std::optional<std::vector<std::size_t>> choose_along_chain(
    std::span<const std::vector<KeptSet>* const> frontiers, std::int64_t budget);

// Returns the smallest budget for which there is a choice.
std::int64_t least_budget(std::span<const std::vector<KeptSet>* const> frontiers);

}  // namespace meshwright
