// Fuzzes the reader of PyTorch's profiler traces, which `explain --measured` uses.
#include "sim/predict/kernel_parts.h"

#include "models/core/error.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::input_file("profile.json", std::string(fuzz::text_of(data, size)));
  fuzz::read_or_refused(path, [&]() -> bool {
    const auto trace = read_profiler_trace(path);
    if (!trace) return false;
    const KernelParts parts = profiled_kernel_parts(*trace, path);
    SimTime sum = 0;
    for (const StepPart& part : parts.parts.parts) {
      MESHWRIGHT_CHECK(part.time >= 0, "no part is negative");
      sum += part.time;
    }
    MESHWRIGHT_CHECK(sum == parts.parts.step_time, "parts sum to the step");
    return true;
  });
  return 0;
}
