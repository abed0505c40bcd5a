// Matrix products by the fastest kernels that the BLAS library has for this computer: measured once
// for a library and a processor, remembered in a file.
#pragma once

#include "tools/options.h"

namespace meshwright {

// Before anything is computed, written or started. Where other kernels than those in use are faster
// this process begins again with them (exec), and so the processes that it starts have them too.
// Does nothing where OPENBLAS_CORETYPE is set, and measures nothing inside an mpirun, whose ranks
// would disturb each other.
void use_fastest_products(const Options& options);

}  // namespace meshwright
