// The tests of the CUDA backend on a GPU: what they ask of an emulated device
// (tests/cuda_emulation/emulated.h, cublasLt.h, nccl.h), a real one does not do. Cases that are
// about nothing else have the tag [emulated] and are left out.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace emulated {

inline void reverse_threads(bool) {}  // a second run must have the same bits here too
inline void refuse_epilogues(bool) {}
enum class Algorithm : std::uint64_t { aligned, split_in_place };
inline long long products_by(Algorithm) { return 0; }

constexpr bool counts_products = false;
inline long long products_in_fp8() { return 0; }

// Whether ranks of one GPU can be NCCL's (docs/gpu.md).
inline bool nccl_shares_devices() { return std::getenv("MESHWRIGHT_NCCL_SHARES_GPUS") != nullptr; }

}  // namespace emulated
