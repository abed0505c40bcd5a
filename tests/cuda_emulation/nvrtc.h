// Replaces CUDA's header of this name by declarations that the backend uses. This computer's
// compiler compiles the text of kernels as plain C++. The machine code is a shared library.
#pragma once

#include <cstddef>

enum nvrtcResult { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6 };
using nvrtcProgram = struct _nvrtcProgram*;
const char* nvrtcGetErrorString(nvrtcResult result);
nvrtcResult nvrtcVersion(int* major, int* minor);
nvrtcResult nvrtcGetNumSupportedArchs(int* count);
nvrtcResult nvrtcGetSupportedArchs(int* numbers);
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                               int headers, const char* const* header_texts,
                               const char* const* header_names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin);
