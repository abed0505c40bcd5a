#include "tools/fast_products.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "exec/backends/cpu/blas_kernels.h"
#include "models/core/error.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

constexpr const char* variable = "OPENBLAS_CORETYPE";

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, words;
  while (std::getline(file, line) && !line.empty())
    for (const char* key : {"vendor_id", "cpu family", "model", "stepping"})
      if (line.starts_with(key)) words += line.substr(line.find(':') + 1) + ";";
  return words;
}

std::optional<std::string> remembered(const Options& options) {
  std::ifstream file(options.products_file);
  const auto value = nlohmann::json::parse(file, nullptr, false);
  if (!value.is_object() || value.value("library", "") != blas_library() ||
      value.value("processor", "") != processor())
    return std::nullopt;
  return value.value("kernels", "");
}

// What another process measures with these kernels; 0 where they do not work here.
double measured_with(const Options& options, const std::string& kernels) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    setenv(variable, kernels.c_str(), 1);
    execl(options.program.c_str(), options.program.c_str(), "--measure-products", nullptr);
    _exit(1);
  }
  close(ends[1]);
  char text[64] = {};
  const ssize_t count = child > 0 ? read(ends[0], text, sizeof text - 1) : 0;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return count > 0 ? std::strtod(text, nullptr) : 0;
}

std::string measured(const Options& options) {
  // Another family must be clearly faster: the library's own choice is the known one.
  constexpr double clearly = 1.1;
  std::string best = blas_kernels();
  double speed = clearly * measured_with(options, best);
  for (const std::string& kernels : other_blas_kernels()) {
    const double other = measured_with(options, kernels);
    if (other <= speed) continue;
    speed = other;
    best = kernels;
  }
  return best;
}

void remember(const Options& options, const std::string& kernels) {
  const nlohmann::json value = {
      {"library", blas_library()}, {"processor", processor()}, {"kernels", kernels}};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options.products_file).parent_path(),
                                      error);
  try {
    write_file(options.products_file, value.dump(1) + "\n");
  } catch (const RunError&) {  // then it is measured again the next time
  }
}

}  // namespace

void use_fastest_products(const Options& options) {
  const std::string own = blas_kernels();
  if (own.empty() || options.blas_kernels_are_given) return;
  std::optional<std::string> best = remembered(options);
  if (!best) {
    if (options.mpi_ranks || options.as_rank) return;
    best = measured(options);
    remember(options, *best);
  }
  if (*best == own) return;
  std::fflush(nullptr);
  setenv(variable, best->c_str(), 1);
  execv(options.program.c_str(), options.arguments);
}

}  // namespace meshwright
