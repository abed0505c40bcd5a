// Compiles the CUDA text of fused operations with the toolkit's compiler. Nothing runs on a device.
#include "exec/backends/cuda/fused/nvrtc.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "exec/backends/cuda/fused/fused_source.h"
#include "tests/catch.h"
#include "tests/exec/fusion_cases.h"
#include "tests/message_of.h"
#include "tests/one_in.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

// Returns one text of many kernels, because a compilation of each would take minutes. A spilled
// register would be a warning, so steps pass their results in registers.

// One text of many kernels: a compilation each would take minutes.
std::string source_of(const std::vector<FusionCase>& cases) {
  std::string source(cuda::fused_prelude());
  for (std::size_t i = 0; i < cases.size(); ++i)
    source += cuda::fused_kernel(cases[i].fusion, "kernel_" + std::to_string(i)).source;
  return source;
}

void check_compiles(const std::vector<FusionCase>& cases) {
  const std::string source = source_of(cases);
  const std::vector<std::string> known = cuda::nvrtc_architectures();
  for (const std::string architecture : {"sm_70", "sm_80", "sm_90"}) {
    const bool in_toolkit = std::find(known.begin(), known.end(), architecture) != known.end();
    if (architecture == "sm_70" && !in_toolkit) continue;
    if (architecture != "sm_90" && !all_are_tried()) continue;
    const cuda::Compiled compiled = cuda::compile_cuda(source, architecture);
    INFO(architecture);
    // For sm_70, the last compiler that supports it reports so, and some registers are spilled.
    if (architecture != "sm_70") CHECK(compiled.log == "");
    for (std::size_t i = 0; i < cases.size(); ++i)
      CHECK(compiled.cubin.find("kernel_" + std::to_string(i)) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("CUDA kernels of every row operation compile without a warning", "[exec][cuda]") {
  std::vector<FusionCase> cases = single_operations({3, 7, 96, Dtype::f32});
  for (FusionCase& c : single_operations({2, 6, 12288, Dtype::bf16})) cases.push_back(std::move(c));
  for (FusionCase& c : epilogues({3, 7, 96, Dtype::f16})) cases.push_back(std::move(c));
  check_compiles(cases);
}

TEST_CASE("CUDA kernels of random bodies compile without a warning", "[exec][cuda]") {
  const RowSizes sizes[] = {{3, 7, 37, Dtype::f32},
                            {3, 8, 96, Dtype::f16},
                            {2, 6, 1540, Dtype::bf16},
                            {2, 6, 768, Dtype::bf16},
                            {2, 6, 4096, Dtype::f32}};
  std::vector<FusionCase> cases;
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    cases.push_back(random_body(sizes[seed % std::size(sizes)], seed));
  check_compiles(cases);
}

TEST_CASE("CUDA kernels of models compile without a warning", "[exec][cuda]") {
  std::set<std::string> seen;
  std::vector<FusionCase> cases;
  for (const char* name : {"gpt2", "bert-base", "llama-2-7b", "gpt3-175b"}) {
    Training training;
    training.precision = Precision::bf16;
    training.sequence_length = 512;
    training.dropout = 0.1;
    for (FusionCase& c : fusions_of(load_model(name, "."), training))
      if (seen.insert(cuda::fused_kernel(c.fusion, "k").source).second)
        cases.push_back(std::move(c));
  }
  check_compiles(cases);
}

TEST_CASE("an error in a CUDA source comes with the compiler's log", "[exec][cuda]") {
  const std::string message =
      message_of([] { cuda::compile_cuda("__global__ void f() { undeclared = 1; }", "sm_90"); });
  CHECK(message.find("nvrtcCompileProgram: NVRTC_ERROR_COMPILATION") == 0);
  CHECK(message.find("identifier \"undeclared\" is undefined") != std::string::npos);
}

TEST_CASE("an architecture that the toolkit has not is refused with those it has", "[exec][cuda]") {
  const std::vector<std::string> known = cuda::nvrtc_architectures();
  CHECK(std::count(known.begin(), known.end(), "sm_90") == 1);
  CHECK(message_of([] { cuda::compile_cuda("", "sm_12"); }) ==
        "CUDA " + cuda::nvrtc_version() +
            " has no architecture 'sm_12'; known: " + list_of(known, "and"));
}

TEST_CASE("a kernel is compiled once for each architecture", "[exec][cuda]") {
  const TestFolder folder;
  const std::string source = source_of({random_body({3, 7, 37, Dtype::f32}, 1)});
  cuda::KernelCache cache(folder.path(), 1 << 20);
  const std::string first = cuda::cached_cubin(cache, source, "sm_80");
  CHECK(
      first.starts_with("\x7F"
                        "ELF"));
  CHECK(cuda::cached_cubin(cache, source, "sm_80") == first);
  CHECK(cuda::cached_cubin(cache, source, "sm_90") != first);
  CHECK(cache.counts().hits == 1);
  CHECK(cache.counts().misses == 2);
}
