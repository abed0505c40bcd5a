// Matrix products on the CPU, for cublasLt.h. All algorithms compute sums in double, in the same
// order, but need different things. `aligned` needs addresses and strides that are multiples of 16
// bytes. The others need only the alignment of the elements (16 bytes for fp8). `split` needs
// permission to split k and a workspace for sums. `split_in_place` needs permission to add in place
// and a small workspace, and is proposed first, never alone.
#include "tests/cuda_emulation/cublasLt.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_stride = 0, aux_batch_stride = 0;
  const void *a_scale = nullptr, *b_scale = nullptr;
  std::int32_t multiprocessors = 0;  // 0: all
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, stride = 0;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;

  bool is_fp8() const { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
  std::int64_t element_bytes() const { return type == CUDA_R_32F ? 4 : is_fp8() ? 1 : 2; }
  std::int64_t bytes() const {
    return ((batch - 1) * batch_stride + (columns - 1) * stride + rows) * element_bytes();
  }
};

struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t a = 256, b = 256, c = 256, d = 256;  // alignments in bytes
};

namespace {

using emulated::Algorithm;
using Description = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;

bool epilogues_refused = false;
std::map<Algorithm, long long> issued;
long long issued_in_fp8 = 0;

[[noreturn]] void misused(const std::string& how) {
  throw std::logic_error("cuBLASLt was misused: " + how);
}
void require(bool condition, const char* how) {
  if (!condition) misused(how);
}

template <typename T>
cublasStatus_t set(T& member, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&member, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool has_bias(cublasLtEpilogue_t epilogue) { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
bool has_aux(cublasLtEpilogue_t epilogue) { return (epilogue & 128) != 0; }

struct Sizes {
  std::int64_t m, n, k;
};

// Returns the sizes of D[m,n] = op(A)[m,k] op(B)[k,n]. Misuse is an error: layouts that do not fit
// together.
Sizes sizes_of(const Description& description, const Layout& a, const Layout& b, const Layout& c,
               const Layout& d) {
  const bool turned_a = description.transpose_a == CUBLAS_OP_T;
  const bool turned_b = description.transpose_b == CUBLAS_OP_T;
  const Sizes sizes{turned_a ? a.columns : a.rows, turned_b ? b.rows : b.columns,
                    turned_a ? a.rows : a.columns};
  require((turned_b ? b.columns : b.rows) == sizes.k, "the factors do not fit together");
  require(d.rows == sizes.m && d.columns == sizes.n, "the result does not fit the factors");
  require(c.rows == d.rows && c.columns == d.columns, "C does not fit D");
  require(a.batch == d.batch && b.batch == d.batch && c.batch == d.batch,
          "batches of different sizes");
  for (const Layout* each : {&a, &b, &c, &d}) {
    require(each->rows > 0 && each->columns > 0 && each->batch > 0, "a matrix is empty");
    require(each->stride >= each->rows, "columns overlap");
  }
  require(d.batch == 1 || d.batch_stride >= (d.columns - 1) * d.stride + d.rows,
          "results of a batch overlap");
  return sizes;
}

// Returns whether there is a product of fp8 factors: at most one is e5m2, A is transposed and B is
// not, so that k runs along the memory of both, sizes are multiples of 16, there is one product,
// and the result is bf16 or fp32.
bool has_fp8(const Description& description, const Layout& a, const Layout& b, const Layout& d) {
  const bool kinds = a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3;
  const bool along =
      description.transpose_a == CUBLAS_OP_T && description.transpose_b == CUBLAS_OP_N;
  const bool sizes = a.rows % 16 == 0 && a.columns % 16 == 0 && b.columns % 16 == 0;
  return a.is_fp8() && b.is_fp8() && kinds && along && sizes && d.batch == 1 &&
         (d.type == CUDA_R_16BF || d.type == CUDA_R_32F);
}

bool has_types(const Description& description, const Layout& a, const Layout& b, const Layout& c,
               const Layout& d) {
  if (c.type != d.type) return false;
  if (a.is_fp8() || b.is_fp8()) return has_fp8(description, a, b, d);
  return a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F);
}

bool has_epilogue(const Description& description, const Layout& d) {
  if (description.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  if (epilogues_refused) return false;
  if (!has_aux(description.epilogue)) return true;
  return description.aux_stride >= d.rows && description.aux_stride % 8 == 0 &&
         (d.batch == 1 || description.aux_batch_stride % 8 == 0);
}

Algorithm algorithm_of(const cublasLtMatmulAlgo_t& algorithm) {
  const auto known = static_cast<Algorithm>(algorithm.data[0]);
  require(known >= Algorithm::aligned && known <= Algorithm::split_in_place &&
              std::all_of(algorithm.data + 1, algorithm.data + 8,
                          [&](std::uint64_t word) { return word == algorithm.data[0] * 3; }),
          "the algorithm is none of mine");
  return known;
}

std::size_t workspace_of(Algorithm algorithm, const Layout& d) {
  if (algorithm == Algorithm::split)
    return static_cast<std::size_t>(d.rows * d.columns * d.batch) * 2 * sizeof(float);
  return algorithm == Algorithm::split_in_place ? 4096 : 0;
}

cublasLtMatmulHeuristicResult_t result_of(Algorithm algorithm, const Layout& d) {
  cublasLtMatmulHeuristicResult_t result{};
  const auto number = static_cast<std::uint64_t>(algorithm);
  std::fill(std::begin(result.algo.data), std::end(result.algo.data), number * 3);
  result.algo.data[0] = number;
  result.workspaceSize = workspace_of(algorithm, d);
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  return result;
}

std::int64_t least_alignment(Algorithm algorithm, const Layout& layout) {
  return algorithm == Algorithm::aligned || layout.is_fp8() ? 16 : layout.element_bytes();
}
bool rows_are_aligned(Algorithm algorithm, const Layout& layout) {
  const std::int64_t bytes = least_alignment(algorithm, layout);
  return layout.stride * layout.element_bytes() % bytes == 0 &&
         (layout.batch == 1 || layout.batch_stride * layout.element_bytes() % bytes == 0);
}

void require_address(const void* address, const Layout& layout, Algorithm algorithm) {
  require(reinterpret_cast<std::uintptr_t>(address) %
                  static_cast<std::uintptr_t>(least_alignment(algorithm, layout)) ==
              0,
          "an address is less aligned than the preference said");
  require(emulated::space_of(address, static_cast<std::size_t>(layout.bytes())) ==
              emulated::Space::device,
          "an operand is not within device memory");
}

// Returns the value of an fp8 code, which has a sign, an exponent and a fraction.
float value_of_fp8(unsigned int bits, int fraction_bits, int bias) {
  const unsigned int magnitude = bits & 0x7fU;
  const bool ieee = fraction_bits == 2;  // e4m3 has no infinities and one NaN of each sign
  if (ieee ? magnitude > 0x7cU : magnitude == 0x7fU) return NAN;
  if (ieee && magnitude == 0x7cU) return (bits & 0x80U) != 0 ? -INFINITY : INFINITY;
  const int exponent = static_cast<int>(magnitude >> static_cast<unsigned int>(fraction_bits));
  const int fraction = static_cast<int>(magnitude) - (exponent << fraction_bits);
  const int whole = exponent > 0 ? fraction + (1 << fraction_bits) : fraction;
  const float x =
      std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - fraction_bits);
  return (bits & 0x80U) != 0 ? -x : x;
}

float widened(const void* data, std::int64_t i, cudaDataType_t type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_8F_E4M3) return value_of_fp8(static_cast<const unsigned char*>(data)[i], 3, 7);
  if (type == CUDA_R_8F_E5M2)
    return value_of_fp8(static_cast<const unsigned char*>(data)[i], 2, 15);
  const unsigned short bits = static_cast<const unsigned short*>(data)[i];
  return type == CUDA_R_16F ? float_of_half(bits)
                            : __uint_as_float(static_cast<unsigned int>(bits) << 16U);
}

void narrow(double x, void* data, std::int64_t i, cudaDataType_t type) {
  const auto single = static_cast<float>(x);
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = single;
  } else if (type == CUDA_R_16F) {
    static_cast<unsigned short*>(data)[i] = half_of_float(single);
  } else {
    const unsigned int bits = __float_as_uint(single);
    static_cast<unsigned short*>(data)[i] = static_cast<unsigned short>(
        std::isnan(single) ? bits >> 16U | 0x40U : (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
  }
}

// Returns x rounded to tf32, which has 10 bits of fraction.
float rounded_to_tf32(float x) {
  const unsigned int bits = __float_as_uint(x);
  return __uint_as_float((bits + 0xfffU + (bits >> 13U & 1U)) & ~0x1fffU);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x);
}

struct Work {
  Description description;
  Layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  double alpha, beta;
  Sizes sizes;

  // Returns matrix number `batch` as numbers without gaps, row by row if `rows_first`, otherwise
  // column by column.
  std::vector<double> turned(const Layout& layout, const void* data, bool rows_first,
                             std::int64_t batch) const {
    const bool rounds = description.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    std::vector<double> values(static_cast<std::size_t>(layout.rows * layout.columns));
    for (std::int64_t j = 0; j < layout.columns; ++j)
      for (std::int64_t i = 0; i < layout.rows; ++i) {
        const float x =
            widened(data, batch * layout.batch_stride + j * layout.stride + i, layout.type);
        const std::int64_t at = rows_first ? i * layout.columns + j : j * layout.rows + i;
        values[static_cast<std::size_t>(at)] = static_cast<double>(rounds ? rounded_to_tf32(x) : x);
      }
    return values;
  }

  void run() const {
    for (std::int32_t batch = 0; batch < d.batch; ++batch) {
      // The factors are [k][m] and [n][k], so that the inner loop adds to the sums of one column of
      // the result.
      const auto left = turned(a, a_data, description.transpose_a == CUBLAS_OP_T, batch);
      const auto right = turned(b, b_data, description.transpose_b == CUBLAS_OP_T, batch);
      std::vector<double> sums(static_cast<std::size_t>(sizes.m));
      for (std::int64_t j = 0; j < sizes.n; ++j) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (std::int64_t l = 0; l < sizes.k; ++l)
          add_multiple(sums.data(), left.data() + l * sizes.m,
                       right[static_cast<std::size_t>(j * sizes.k + l)], sizes.m);
        for (std::int64_t i = 0; i < sizes.m; ++i)
          finish(sums[static_cast<std::size_t>(i)], i, j, batch);
      }
    }
  }
  // Sanitizers skip this loop, because tests would spend most of their time on its checks.
  [[gnu::no_sanitize("address", "undefined")]] static void add_multiple(double* sums,
                                                                        const double* of, double by,
                                                                        std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += of[i] * by;
  }

  void finish(double sum, std::int64_t i, std::int64_t j, std::int64_t batch) const {
    const cublasLtEpilogue_t epilogue = description.epilogue;
    double x = alpha * sum;
    if (a.is_fp8())
      x *= static_cast<double>(*static_cast<const float*>(description.a_scale)) *
           static_cast<double>(*static_cast<const float*>(description.b_scale));
    if (beta != 0)
      x += beta *
           static_cast<double>(widened(c_data, batch * c.batch_stride + j * c.stride + i, c.type));
    if (has_bias(epilogue)) x += static_cast<double>(widened(description.bias, i, d.type));
    const std::int64_t aux = batch * description.aux_batch_stride + j * description.aux_stride + i;
    if (epilogue == CUBLASLT_EPILOGUE_DGELU)
      x *= gelu_slope(static_cast<double>(widened(description.aux, aux, d.type)));
    else if (has_aux(epilogue))
      narrow(x, description.aux, aux, d.type);
    if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) x = gelu(x);
    narrow(x, d_data, batch * d.batch_stride + j * d.stride + i, d.type);
  }
};

}  // namespace

namespace emulated {
void refuse_epilogues(bool refused) { epilogues_refused = refused; }
long long products_by(Algorithm algorithm) { return issued[algorithm]; }
long long products_in_fp8() { return issued_in_fp8; }
}  // namespace emulated

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "?";
}
std::size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  require(scale == CUDA_R_32F, "scales are fp32");
  *description = new cublasLtMatmulDescOpaque_t{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  Description& x = *description;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(x.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(x.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(x.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(x.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(x.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(x.aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return set(x.aux_batch_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      set(x.multiprocessors, value, bytes);
      require(x.multiprocessors > 0 && x.multiprocessors <= emulated::hardware().multiprocessors,
              "products run on multiprocessors that the device has");
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return set(x.a_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return set(x.b_scale, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t column_stride) {
  *layout = new cublasLtMatrixLayoutOpaque_t{.type = type,
                                             .rows = static_cast<std::int64_t>(rows),
                                             .columns = static_cast<std::int64_t>(columns),
                                             .stride = column_stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->batch, value, bytes)
                                                         : set(layout->batch_stride, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  cublasLtMatmulPreferenceOpaque_t& x = *preference;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(x.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(x.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(x.a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(x.b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(x.c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(x.d, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const Sizes sizes = sizes_of(*description, *a, *b, *c, *d);
  *count = 0;
  if (!has_types(*description, *a, *b, *c, *d) || !has_epilogue(*description, *d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto fits = [&](const Layout& layout, std::uint32_t alignment, Algorithm algorithm) {
    return alignment % static_cast<std::uint32_t>(least_alignment(algorithm, layout)) == 0 &&
           rows_are_aligned(algorithm, layout);
  };
  const auto propose = [&](Algorithm algorithm, std::uint32_t reduction) {
    const bool allowed = (preference->reductions & reduction) == reduction &&
                         workspace_of(algorithm, *d) <= preference->workspace &&
                         (reduction == 0 || sizes.k > 1);
    if (!allowed || *count == wanted || !fits(*a, preference->a, algorithm) ||
        !fits(*b, preference->b, algorithm) || !fits(*c, preference->c, algorithm) ||
        !fits(*d, preference->d, algorithm))
      return;
    results[(*count)++] = result_of(algorithm, *d);
  };
  propose(Algorithm::split_in_place, CUBLASLT_REDUCTION_SCHEME_INPLACE);
  propose(Algorithm::aligned, CUBLASLT_REDUCTION_SCHEME_NONE);
  propose(Algorithm::split, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  propose(Algorithm::any, CUBLASLT_REDUCTION_SCHEME_NONE);
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  sizes_of(*description, *a, *b, *c, *d);
  if (!has_types(*description, *a, *b, *c, *d) || !has_epilogue(*description, *d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Algorithm known = algorithm_of(*algorithm);
  for (const Layout* each : {a, b, c, d})
    if (!rows_are_aligned(known, *each)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = result_of(known, *d);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t found = cublasLtMatmulAlgoCheck(handle, description, a_layout, b_layout,
                                                       c_layout, d_layout, algorithm, &checked);
  if (found != CUBLAS_STATUS_SUCCESS) return found;
  const Algorithm known = algorithm_of(*algorithm);
  require(checked.workspaceSize <= workspace_bytes, "the workspace is too small");
  require(reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0, "the workspace is not aligned");
  if (emulated::listing() != nullptr) {
    const Sizes sizes = sizes_of(*description, *a_layout, *b_layout, *c_layout, *d_layout);
    emulated::listing()->asked.push_back({.kind = emulated::Asked::Kind::product,
                                          .m = sizes.m,
                                          .n = sizes.n,
                                          .k = sizes.k,
                                          .batch = d_layout->batch});
    return CUBLAS_STATUS_SUCCESS;
  }
  require_address(a, *a_layout, known);
  require_address(b, *b_layout, known);
  require_address(c, *c_layout, known);
  require_address(d, *d_layout, known);
  require(c != d || c_layout->stride == d_layout->stride, "C and D overlap");
  if (a_layout->is_fp8())
    for (const void* scale : {description->a_scale, description->b_scale})
      require(emulated::space_of(scale, sizeof(float)) == emulated::Space::device,
              "a scale is not within device memory");
  const cublasLtEpilogue_t epilogue = description->epilogue;
  if (has_bias(epilogue))
    require_address(
        description->bias,
        {.type = d_layout->type, .rows = d_layout->rows, .columns = 1, .stride = d_layout->rows},
        Algorithm::any);
  if (has_aux(epilogue))
    require_address(description->aux,
                    {.type = d_layout->type,
                     .rows = d_layout->rows,
                     .columns = d_layout->columns,
                     .stride = description->aux_stride,
                     .batch = d_layout->batch,
                     .batch_stride = description->aux_batch_stride},
                    Algorithm::aligned);
  ++issued[known];
  issued_in_fp8 += a_layout->is_fp8() ? 1 : 0;
  const Work work{*description,
                  *a_layout,
                  *b_layout,
                  *c_layout,
                  *d_layout,
                  a,
                  b,
                  c,
                  d,
                  static_cast<double>(*static_cast<const float*>(alpha)),
                  static_cast<double>(*static_cast<const float*>(beta)),
                  sizes_of(*description, *a_layout, *b_layout, *c_layout, *d_layout)};
  emulated::enqueue(stream, [=] {
    std::memset(workspace, 0xff, checked.workspaceSize);
    work.run();
  });
  return CUBLAS_STATUS_SUCCESS;
}
