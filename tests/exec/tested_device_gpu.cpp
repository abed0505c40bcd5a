#include "tests/exec/tested_device.h"

#include <cstdlib>

namespace meshwright::tests {

bool device_is_emulated() { return false; }
void reverse_threads(bool) {}
void refuse_epilogues(bool) {}
long long products_in_fp8() { return 0; }
long long products_split_in_place() { return 0; }
bool nccl_shares_devices() { return std::getenv("MESHWRIGHT_NCCL_SHARES_GPUS") != nullptr; }

}  // namespace meshwright::tests
