// The step's end on a GPU: optimizer.h's kernels behind exec/optimizer/updater.h.
#pragma once

#include <memory>

#include "exec/backends/cuda/products/products.h"
#include "exec/core/stream_source.h"
#include "exec/optimizer/updater.h"

namespace meshwright::cuda {

// The arguments outlive it.
std::unique_ptr<Updater> make_updater(const StepSettings& training, StreamSource& streams,
                                      Products& products);

}  // namespace meshwright::cuda
