#include "exec/backends/cpu/blas_kernels.h"

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace meshwright {

std::string blas_library() { return openblas_get_config(); }

std::string blas_kernels() {
  if (blas_library().find("DYNAMIC_ARCH") == std::string::npos) return "";
  return openblas_get_corename();
}

std::vector<std::string> other_blas_kernels() {
  std::vector<std::string> names;
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  if (wide) names.emplace_back("SkylakeX");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    names.insert(names.end(), {"Haswell", "Zen"});
#endif
  const std::string own = blas_kernels();
  names.erase(std::remove(names.begin(), names.end(), own), names.end());
  return own.empty() ? std::vector<std::string>{} : names;
}

double measure_products() {
  using Clock = std::chrono::steady_clock;
  constexpr blasint m = 256, n = 768, k = 768;
  constexpr double flop = 2.0 * m * n * k, budget_s = 0.04;
  openblas_set_num_threads(1);
  std::vector<float> a(m * k, 1.0F), b(n * k, 1.0F), c(m * n, 0.0F);
  double fastest = std::numeric_limits<double>::max(), spent = 0;
  for (int run = 0; run < 3 || spent < budget_s; ++run) {
    const auto begin = Clock::now();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a.data(), k, b.data(), k, 0,
                c.data(), n);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    fastest = std::min(fastest, seconds);
    spent += seconds;
  }
  return flop / fastest;
}

}  // namespace meshwright
