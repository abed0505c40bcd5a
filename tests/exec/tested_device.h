// What tests ask of the device that they run on: the emulated one (tests/cuda_emulation), or a GPU.
#pragma once

namespace meshwright {

bool device_is_emulated();

// Threads, warps and blocks in the opposite order; a GPU's come in an order of its own each time.
void reverse_threads(bool reversed);

// As if cuBLASLt had no product with an epilogue; a GPU's has what it has.
void refuse_epilogues(bool refused);

// That were issued so far: with factors in fp8, of algorithms that add parts of k as they come. 0
// on a GPU.
long long products_in_fp8();
long long products_split_in_place();

// Whether ranks of one GPU can be NCCL's (docs/gpu.md).
bool nccl_shares_devices();

}  // namespace meshwright
