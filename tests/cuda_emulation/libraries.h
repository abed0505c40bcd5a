// Loads kernels at run time from shared libraries of this computer.
#pragma once

#include <string>

namespace emulated {

// Returns the content of a shared library in the form that cudaLibraryLoadData() takes: after a
// heading and its length. Empty content stands for a library without kernels.
std::string cubin_of(const std::string& shared_library);

}  // namespace emulated
