// Lists what one rank saves, as pieces of whole parameters. Over all ranks, each element of the
// trained parameters is saved exactly once.
#pragma once

#include <vector>

#include "exec/checkpoint/shard_file.h"
#include "exec/runtime/parameter_runs.h"
#include "exec/runtime/runtime.h"

namespace meshwright::exec {

// Returns the pieces that this rank saves. They point into the snapshot that Arena::take_snapshot()
// fills.
std::vector<PieceSource> pieces_of(const Runtime& runtime);

// Returns the part of `runs` within local elements [begin, begin + count), without padding. In the
// result, `local` counts from `begin`.
std::vector<ParameterRun> runs_within(const std::vector<ParameterRun>& runs, std::int64_t begin,
                                      std::int64_t count);

}  // namespace meshwright::exec
