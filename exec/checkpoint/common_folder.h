// Whether the checkpoint folder of every rank is the same: hosts need not share one.
#pragma once

#include <string>

#include "exec/comm/communicator.h"

namespace meshwright {

// Makes the folder where it is missing. Every rank calls it; InputError on all of them where one
// cannot write there, or where rank 0, which completes checkpoints, does not see what one writes.
void check_common_folder(const std::string& folder, Communicator& all);

}  // namespace meshwright
