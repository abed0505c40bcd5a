#include "tests/exec/tested_device.h"

namespace meshwright {

bool device_is_emulated() { return false; }
void reverse_threads(bool) {}
void refuse_epilogues(bool) {}
long long products_in_fp8() { return 0; }
long long products_split_in_place() { return 0; }

}  // namespace meshwright
