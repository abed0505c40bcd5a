#include "exec/backends/cuda/fused/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <array>

#include "models/core/error.h"

namespace meshwright::exec::cuda {

namespace {

void check(nvrtcResult result, const char* call, const std::string& log = {}) {
  if (result == NVRTC_SUCCESS) return;
  throw RunError(std::string(call) + ": " + nvrtcGetErrorString(result) +
                 (log.empty() ? "" : ":\n" + log));
}

class Program {
 public:
  explicit Program(const std::string& source) {
    check(nvrtcCreateProgram(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  ~Program() { nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void compile(const std::string& architecture) const {
    const std::string target = "--gpu-architecture=" + architecture;
    const std::array<const char*, 3> options = {target.c_str(), "--std=c++17",
                                                "--ptxas-options=--warn-on-spills"};
    const nvrtcResult result =
        nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    check(result, "nvrtcCompileProgram", log());
  }

  std::string log() const {
    std::size_t bytes = 0;
    check(nvrtcGetProgramLogSize(program_, &bytes), "nvrtcGetProgramLogSize");
    std::string text(bytes, '\0');
    check(nvrtcGetProgramLog(program_, text.data()), "nvrtcGetProgramLog");
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }

  std::string cubin() const {
    std::size_t bytes = 0;
    check(nvrtcGetCUBINSize(program_, &bytes), "nvrtcGetCUBINSize");
    std::string code(bytes, '\0');
    check(nvrtcGetCUBIN(program_, code.data()), "nvrtcGetCUBIN");
    return code;
  }

 private:
  nvrtcProgram program_ = nullptr;
};

}  // namespace

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return std::to_string(major) + '.' + std::to_string(minor);
}

std::vector<std::string> nvrtc_architectures() {
  int count = 0;
  check(nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> numbers(count);
  check(nvrtcGetSupportedArchs(numbers.data()), "nvrtcGetSupportedArchs");
  std::vector<std::string> names;
  for (int number : numbers) names.push_back("sm_" + std::to_string(number));
  return names;
}

Compiled compile_cuda(const std::string& source, const std::string& architecture) {
  const std::vector<std::string> known = nvrtc_architectures();
  if (std::ranges::find(known, architecture) == known.end())
    throw InputError("CUDA " + nvrtc_version() + " has no architecture '" + architecture +
                     "'; known: " + list_of(known, "and"));
  const Program program(source);
  program.compile(architecture);
  return {program.cubin(), program.log()};
}

std::string cached_cubin(KernelCache& cache, const std::string& source,
                         const std::string& architecture) {
  return cache.get({source, architecture, nvrtc_version()},
                   [&] { return compile_cuda(source, architecture).cubin; });
}

}  // namespace meshwright::exec::cuda
