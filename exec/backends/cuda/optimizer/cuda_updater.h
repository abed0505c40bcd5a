// The step's end on a GPU: optimizer.h's kernels behind exec/optimizer/updater.h.
#pragma once

#include <memory>

#include "exec/core/stream_source.h"
#include "exec/optimizer/updater.h"

namespace meshwright::cuda {

// Both arguments outlive it.
std::unique_ptr<Updater> make_updater(const StepSettings& training, StreamSource& streams);

}  // namespace meshwright::cuda
