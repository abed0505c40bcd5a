// The step's end on the host's memory.
#pragma once

#include <memory>

#include "exec/core/thread_pool.h"
#include "exec/optimizer/updater.h"

namespace meshwright::cpu {

// Both arguments outlive it.
std::unique_ptr<Updater> make_updater(const StepSettings& training, ThreadPool& pool);

}  // namespace meshwright::cpu
