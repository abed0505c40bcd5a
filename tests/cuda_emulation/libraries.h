// Kernels that are loaded at run time: shared libraries of this computer.
#pragma once

#include <string>

namespace emulated {

// A shared library as cudaLibraryLoadData takes it: with its length.
std::string cubin_of(const std::string& shared_library);

}  // namespace emulated
