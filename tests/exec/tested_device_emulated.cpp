#include "tests/cuda_emulation/cublasLt.h"
#include "tests/exec/tested_device.h"

namespace meshwright::tests {

bool device_is_emulated() { return true; }
void reverse_threads(bool reversed) { emulated::reverse_threads(reversed); }
void refuse_epilogues(bool refused) { emulated::refuse_epilogues(refused); }
long long products_in_fp8() { return emulated::products_in_fp8(); }
long long products_split_in_place() {
  return emulated::products_by(emulated::Algorithm::split_in_place);
}
bool nccl_shares_devices() { return true; }

}  // namespace meshwright::tests
