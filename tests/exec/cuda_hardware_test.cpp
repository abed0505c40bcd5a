// GPUs other than the H100 that the emulated device is.
#include "exec/backends/cuda/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda_emulation/emulated.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright;
using emulated::OtherHardware;

namespace {

constexpr emulated::Hardware v100{.major = 7, .minor = 0, .shared_bytes = 96 << 10};

}  // namespace

TEST_CASE("a GPU that this build has no kernels for is named", "[exec][cuda]") {
  emulated::Hardware other = v100;
  other.has_kernels = false;
  const OtherHardware hardware(other);
  const TestFolder folder;
  CHECK(message_of([&] { make_cuda_backend({.folder = folder.path()}); }) ==
        "GPU 0 (emulated) is sm_70, and this build has kernels for the emulation: configure with "
        "-DCMAKE_CUDA_ARCHITECTURES=70 (sm_70 needs CUDA 12); starting a kernel: no kernel image "
        "is available for execution on the device");
}
