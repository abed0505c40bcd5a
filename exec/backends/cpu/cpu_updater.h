// The optimizer step on the CPU backend, from the gradients' norm to new weights
// (exec/optimizer/updater.h).
#pragma once

#include <memory>

#include "exec/core/thread_pool.h"
#include "exec/optimizer/updater.h"

namespace meshwright::exec::cpu {

// Makes the updater. Both arguments must outlive it.
std::unique_ptr<Updater> make_updater(const StepSettings& training, ThreadPool& pool);

}  // namespace meshwright::exec::cpu
