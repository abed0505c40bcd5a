// Replaces the matmuls of cuBLAS and cuBLASLt. They compute nothing, and log their shapes and
// types.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstdint>
#include <cstring>

#include "tools/stand_in/log.h"

using namespace meshwright::stand_in;

namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

Handle& of(cublasHandle_t handle) { return *reinterpret_cast<Handle*>(handle); }

// Logs a matmul. The result is m x n, and k is the dimension that is summed. Types are those of
// cudaDataType_t.
cublasStatus_t product(cudaStream_t stream, std::int64_t m, std::int64_t n, std::int64_t k,
                       std::int64_t batch, cudaDataType_t input, cudaDataType_t result,
                       std::uint64_t compute, bool transposed_a, bool transposed_b) {
  append(
      {.stream = reinterpret_cast<std::uint64_t>(stream),
       .numbers = {static_cast<std::uint64_t>(m), static_cast<std::uint64_t>(n),
                   static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(batch),
                   static_cast<std::uint64_t>(input) | static_cast<std::uint64_t>(result) << 8,
                   compute | std::uint64_t{transposed_a} << 32 | std::uint64_t{transposed_b} << 33},
       .kind = Kind::product});
  return CUBLAS_STATUS_SUCCESS;
}

// Holds the attributes of cuBLASLt's opaque descriptors that a program has set, as Description
// does.
struct Layout {
  std::uint64_t rows = 0, columns = 0;
  cudaDataType_t type = CUDA_R_32F;
  std::int32_t batch = 1;
};
struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t transposed_a = 0, transposed_b = 0;
};

template <typename Opaque>
auto& held(Opaque opaque) {
  if constexpr (std::is_same_v<Opaque, cublasLtMatrixLayout_t>)
    return *reinterpret_cast<Layout*>(opaque);
  else
    return *reinterpret_cast<Description*>(opaque);
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new Handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  of(handle).stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  of(handle).math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = of(handle).math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  of(handle).pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = of(handle).pointers;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int) { return CUBLAS_STATUS_SUCCESS; }

#define MESHWRIGHT_GEMM(LETTER, TYPE, NAME)                                                      \
  cublasStatus_t cublas##LETTER##gemm_v2(                                                        \
      cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m, int n, int k,      \
      const TYPE*, const TYPE*, int, const TYPE*, int, const TYPE*, TYPE*, int) {                \
    return product(of(handle).stream, m, n, k, 1, NAME, NAME, of(handle).math, a != CUBLAS_OP_N, \
                   b != CUBLAS_OP_N);                                                            \
  }                                                                                              \
  cublasStatus_t cublas##LETTER##gemmStridedBatched(                                             \
      cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m, int n, int k,      \
      const TYPE*, const TYPE*, int, long long, const TYPE*, int, long long, const TYPE*, TYPE*, \
      int, long long, int batch) {                                                               \
    return product(of(handle).stream, m, n, k, batch, NAME, NAME, of(handle).math,               \
                   a != CUBLAS_OP_N, b != CUBLAS_OP_N);                                          \
  }
MESHWRIGHT_GEMM(S, float, CUDA_R_32F)
MESHWRIGHT_GEMM(D, double, CUDA_R_64F)
MESHWRIGHT_GEMM(C, cuComplex, CUDA_C_32F)
MESHWRIGHT_GEMM(Z, cuDoubleComplex, CUDA_C_64F)
#undef MESHWRIGHT_GEMM

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m,
                            int n, int k, const void*, const void*, cudaDataType_t input, int,
                            const void*, cudaDataType_t, int, const void*, void*,
                            cudaDataType_t result, int, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
  return product(of(handle).stream, m, n, k, 1, input, result, compute, a != CUBLAS_OP_N,
                 b != CUBLAS_OP_N);
}
cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m,
                             int n, int k, const float*, const void*, cudaDataType_t input, int,
                             const void*, cudaDataType_t, int, const float*, void*,
                             cudaDataType_t result, int) {
  return product(of(handle).stream, m, n, k, 1, input, result, 0, a != CUBLAS_OP_N,
                 b != CUBLAS_OP_N);
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a,
                                          cublasOperation_t b, int m, int n, int k, const void*,
                                          const void*, cudaDataType_t input, int, long long,
                                          const void*, cudaDataType_t, int, long long, const void*,
                                          void*, cudaDataType_t result, int, long long, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  return product(of(handle).stream, m, n, k, batch, input, result, compute, a != CUBLAS_OP_N,
                 b != CUBLAS_OP_N);
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &held(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t) {
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) std::memcpy(&held(description).transposed_a, value, 4);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) std::memcpy(&held(description).transposed_b, value, 4);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{rows, columns, type});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &held(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t) {
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) std::memcpy(&held(layout).batch, value, 4);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<char*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = wanted > 0 ? 1 : 0;
  if (wanted > 0) {
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void*,
                              const void*, cublasLtMatrixLayout_t a, const void*,
                              cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t result,
                              const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  const Description& how = held(description);
  const Layout &first = held(a), &to = held(result);
  const std::uint64_t k = how.transposed_a != 0 ? first.rows : first.columns;
  return product(stream, static_cast<std::int64_t>(to.rows), static_cast<std::int64_t>(to.columns),
                 static_cast<std::int64_t>(k), to.batch, first.type, to.type, how.compute,
                 how.transposed_a != 0, how.transposed_b != 0);
}
}
