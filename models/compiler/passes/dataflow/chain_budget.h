// Chooses the tensors that each unit of a chain saves, under one budget of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/compiler/passes/dataflow/kept_sets.h"

namespace meshwright::compiler {

// Returns for each unit the index of a set in its frontier (KeptSets), or nothing if no choice
// fits. A choice fits if the sum of `kept` plus the largest `working` is at most `budget`, in
// bytes. The sum of costs is at most (1 + chain_tolerance) times the least one. `frontiers` holds
// the frontier of each unit.
constexpr double chain_tolerance = 0.01;
std::optional<std::vector<std::size_t>> choose_along_chain(
    std::span<const std::vector<KeptSet>* const> frontiers, std::int64_t budget);

// Returns the smallest budget, in bytes, for which there is a choice.
std::int64_t least_budget(std::span<const std::vector<KeptSet>* const> frontiers);

}  // namespace meshwright::compiler
