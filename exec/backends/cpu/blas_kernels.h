// Which of OpenBLAS's families of kernels multiplies matrices. The library takes the one it knows
// for the processor's model; a model newer than the library gets an old family, at half the speed
// or less. OPENBLAS_CORETYPE, read when the library is loaded, names another one.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

// The one in use, e.g. "Haswell"; "" where the library has no choice.
std::string blas_kernels();

// Version and build of the library.
std::string blas_library();

// Families whose instructions this processor has, the one in use not among them.
std::vector<std::string> other_blas_kernels();

// FLOP/s of one thread in products as training has them; some 50 ms.
double measure_products();

}  // namespace meshwright
