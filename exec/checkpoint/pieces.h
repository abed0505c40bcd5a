// What one rank saves, as pieces of whole parameters: each element of the run once over all ranks.
#pragma once

#include <vector>

#include "exec/checkpoint/shard_file.h"
#include "exec/runtime/parameter_runs.h"
#include "exec/runtime/runtime.h"

namespace meshwright {

// They lie in the snapshot that Arena::take_snapshot() fills.
std::vector<PieceSource> pieces_of(const Runtime& runtime);

// The part of `runs` within local elements [begin, begin + count), without padding; `local` counts
// from `begin`.
std::vector<ParameterRun> runs_within(const std::vector<ParameterRun>& runs, std::int64_t begin,
                                      std::int64_t count);

}  // namespace meshwright
