// Checks that all ranks have the same checkpoint folder, because hosts need not share one.
#pragma once

#include <string>

#include "exec/comm/communicator.h"

namespace meshwright::exec {

// Makes the folder if it is missing. Every rank calls it. Throws InputError on all ranks if one
// cannot write there, or if rank 0, which completes checkpoints, does not see what another rank
// writes.
void check_common_folder(const std::string& folder, Communicator& all);

}  // namespace meshwright::exec
