// Compiles the text of kernels. For each kernel, a function is appended to the text that takes the
// kernel's arguments as cudaLaunchKernel() does and makes the function that each thread runs
// (libraries.cpp).
#include "tests/cuda_emulation/nvrtc.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/cuda_emulation/emulated.h"
#include "tests/cuda_emulation/libraries.h"

struct _nvrtcProgram {
  std::string source, log, cubin;
};

namespace {

namespace fs = std::filesystem;

// The command that compiles after run_time_kernels.h, which is precompiled (tests/CMakeLists.txt).
// It links no libraries, because the program has all that kernels use.
constexpr const char* compile =
    MESHWRIGHT_RUN_TIME_COMPILER " -shared -nostdlib -include " MESHWRIGHT_RUN_TIME_HEADER;

std::string binders_of(const std::string& source) {
  static const std::regex kernel("__global__ void (?:__launch_bounds__\\([\\d, ]+\\) )?(\\w+)\\(");
  std::string text;
  for (std::sregex_iterator found(source.begin(), source.end(), kernel), end; found != end; ++found)
    text += "extern \"C\" void bind_" + found->str(1) +
            "(void** arguments, std::function<void()>* made) { *made = bound(" + found->str(1) +
            ", arguments); }\n";
  return text;
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A temporary folder, which the destructor removes.
class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "meshwright-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw fs::filesystem_error(path_, {});
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

}  // namespace

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* numbers) {
  numbers[0] = 80, numbers[1] = 90;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                               const char* const*, const char* const*) {
  *program = new _nvrtcProgram{source, {}, {}};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  if (emulated::listing() != nullptr) {
    program->cubin = emulated::cubin_of("");
    return NVRTC_SUCCESS;
  }
  const Folder folder;
  std::ofstream(folder.file("kernels.cpp")) << program->source << binders_of(program->source);
  const std::string command = std::string(compile) + " -o " + folder.file("kernels.so") + ' ' +
                              folder.file("kernels.cpp") + " 2> " + folder.file("log");
  const bool compiled = std::system(command.c_str()) == 0;
  program->log = content_of(folder.file("log"));
  if (!compiled) return NVRTC_ERROR_COMPILATION;
  program->cubin = emulated::cubin_of(content_of(folder.file("kernels.so")));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes) {
  *bytes = program->cubin.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  std::memcpy(cubin, program->cubin.data(), program->cubin.size());
  return NVRTC_SUCCESS;
}
