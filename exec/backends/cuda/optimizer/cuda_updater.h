// The optimizer step on a GPU: implements exec/optimizer/updater.h with the kernels of optimizer.h.
#pragma once

#include <memory>

#include "exec/backends/cuda/products/products.h"
#include "exec/core/stream_source.h"
#include "exec/optimizer/updater.h"

namespace meshwright::exec::cuda {

// Makes the updater. All arguments must outlive it.
std::unique_ptr<Updater> make_updater(const StepSettings& training, StreamSource& streams,
                                      Products& products);

}  // namespace meshwright::exec::cuda
