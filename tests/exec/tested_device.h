// Describes and controls the device that tests run on: the emulated one (tests/cuda_emulation) or a
// GPU.
#pragma once

namespace meshwright::tests {

bool device_is_emulated();

// Runs threads, warps and blocks in the opposite order if `reversed`. It does nothing on a GPU,
// whose order differs each time.
void reverse_threads(bool reversed);

// Pretends that cuBLASLt has no matmul with an epilogue if `refused`. It does nothing on a GPU.
void refuse_epilogues(bool refused);

// Return how many matmuls were issued so far with fp8 factors, and by algorithms that add parts of
// k as they come. On a GPU both return 0.
long long products_in_fp8();
long long products_split_in_place();

// Returns whether ranks that share one GPU can use NCCL (docs/gpu.md).
bool nccl_shares_devices();

}  // namespace meshwright::tests
