// The CPU backend, the reference of all others. It computes in fp32, or in fp64 if operands are
// fp64. Operands stored in 16 bits are widened to fp32 for the computation (widened.h) and rounded
// when stored. Results do not depend on the number of threads or on timing: work is cut into pieces
// by size alone. With fp64 the operands that op.h calls f32 (loss, saved) are f64 as well.
#pragma once

#include <memory>

#include "exec/backends/backend.h"

namespace meshwright::exec {

// Makes the backend. In a build with OpenBLAS it also sets that to one thread, for the whole
// process, because the backend splits matmuls itself.
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace meshwright::exec
