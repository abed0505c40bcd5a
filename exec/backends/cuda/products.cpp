#include "exec/backends/cuda/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "exec/backends/cuda/check.h"
#include "models/core/error.h"

namespace meshwright::cuda {

namespace {

void check(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw RunError(std::string(call) + ": " + cublasLtGetStatusString(result));
}

template <typename T, cublasStatus_t (*destroy)(T*)>
struct Destroy {
  void operator()(T* object) const { destroy(object); }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t,
                                    Destroy<cublasLtMatmulDescOpaque_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t,
                               Destroy<cublasLtMatrixLayoutOpaque_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                    Destroy<cublasLtMatmulPreferenceOpaque_t, cublasLtMatmulPreferenceDestroy>>;

template <typename T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}
template <typename T>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute");
}
template <typename T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cudaDataType_t type_of(Dtype dtype) {
  MESHWRIGHT_CHECK(dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16,
                   "products are of fp32, fp16 or bf16 numbers");
  return dtype == Dtype::f32 ? CUDA_R_32F : dtype == Dtype::f16 ? CUDA_R_16F : CUDA_R_16BF;
}

struct EpilogueRow {
  Epilogue epilogue;
  cublasLtEpilogue_t name;
  bool bias, saved;
  std::string_view text;
};
constexpr EpilogueRow epilogue_rows[] = {
    {Epilogue::none, CUBLASLT_EPILOGUE_DEFAULT, false, false, ""},
    {Epilogue::bias, CUBLASLT_EPILOGUE_BIAS, true, false, " + bias"},
    {Epilogue::gelu, CUBLASLT_EPILOGUE_GELU, false, false, ", gelu"},
    {Epilogue::gelu_bias, CUBLASLT_EPILOGUE_GELU_BIAS, true, false, " + bias, gelu"},
    {Epilogue::gelu_saved, CUBLASLT_EPILOGUE_GELU_AUX, false, true, ", saved, gelu"},
    {Epilogue::gelu_bias_saved, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, true,
     " + bias, saved, gelu"},
    {Epilogue::gelu_grad, CUBLASLT_EPILOGUE_DGELU, false, true, ", gelu's gradient"},
};
const EpilogueRow& row_of(Epilogue epilogue) {
  return epilogue_rows[static_cast<std::size_t>(epilogue)];
}

// Elements between rows of what an epilogue saves have to be a multiple of this.
constexpr std::int64_t saved_multiple = 8;

// Bytes to which every matrix of a batch is aligned.
std::uint32_t alignment_of(const ProductForm& form, std::int64_t elements, Dtype dtype) {
  auto bytes = static_cast<std::uint32_t>(form.alignment);
  if (form.batch > 1)
    while (elements * bytes_of(dtype) % bytes != 0) bytes /= 2;
  return bytes;
}

// Row-major [rows, columns] as cuBLASLt has it: columns by rows.
Layout layout_of(const ProductForm& form, Dtype dtype, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type_of(dtype), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  if (form.batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(form.batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }
  return layout;
}

Description description_of(const ProductForm& form, bool tf32) {
  const bool rounds = tf32 && form.factors == Dtype::f32;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Description description(made);
  // Its first factor is our second one.
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, form.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, form.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  const EpilogueRow& epilogue = row_of(form.epilogue);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.name);
  if (epilogue.saved) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, form.n);
    if (form.batch > 1)
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, form.m * form.n);
  }
  return description;
}

void require_valid(const ProductForm& form) {
  MESHWRIGHT_CHECK(form.m > 0 && form.n > 0 && form.k > 0 && form.batch > 0,
                   "a product has elements");
  MESHWRIGHT_CHECK(form.result == form.factors || form.result == Dtype::f32,
                   "results are stored as the factors are, or in fp32");
  MESHWRIGHT_CHECK(form.batch == 1 || !row_of(form.epilogue).bias,
                   "a bias is for all rows of one product");
}

// Device memory for operands while candidates are timed.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<std::size_t>(bytes)) != cudaSuccess) {
      data_ = nullptr;
      (void)cudaGetLastError();
      return;
    }
    // In every type a small number of ordinary size.
    constexpr int pattern = 0x3c;
    cuda::check(cudaMemset(data_, pattern, static_cast<std::size_t>(bytes)), "cudaMemset");
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class Stopwatch {
 public:
  Stopwatch() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& event : events_) cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <typename Issue>
  float milliseconds(int times, const Issue& issue) const {
    issue(stream_);  // the first one loads code
    cuda::check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
    for (int i = 0; i < times; ++i) issue(stream_);
    cuda::check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
    cuda::check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    float passed = 0;
    cuda::check(cudaEventElapsedTime(&passed, events_[0], events_[1]), "cudaEventElapsedTime");
    return passed;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
};

struct NoMemory {};

}  // namespace

struct Products::Plan {
  Description description;
  Layout first, second, result;  // cuBLASLt's factors: our b and a
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  bool is_chosen = false;  // by `prepare`
};

std::string text_of(const ProductForm& form) {
  const auto name = [](Dtype dtype) {
    return dtype == Dtype::f32 ? "f32" : dtype == Dtype::f16 ? "f16" : "bf16";
  };
  return fmt::format("{}{} {}x{}x{}x{} {} -> {}{}{}, aligned to {}", form.transpose_a ? 't' : 'n',
                     form.transpose_b ? 't' : 'n', form.batch, form.m, form.n, form.k,
                     name(form.factors), name(form.result), form.adds ? " + start" : "",
                     row_of(form.epilogue).text, form.alignment);
}

std::size_t Products::Hash::operator()(const ProductForm& form) const {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, a number at a time
  for (const std::int64_t number :
       {form.m, form.n, form.k, form.batch, std::int64_t{form.transpose_a},
        std::int64_t{form.transpose_b}, std::int64_t{form.adds},
        static_cast<std::int64_t>(form.factors), static_cast<std::int64_t>(form.result),
        static_cast<std::int64_t>(form.epilogue), std::int64_t{form.alignment}})
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001B3;
  return hash ^ hash >> 32U;
}

std::int64_t Products::workspace_bytes(const Device& device) {
  return std::int64_t{device.major >= 9 ? 32 : 8} << 20;
}

Products::Products(ProductOptions options, void* workspace, std::int64_t workspace_bytes,
                   KernelCache& cache)
    : options_(std::move(options)),
      workspace_(workspace),
      workspace_bytes_(workspace_bytes),
      cache_(cache) {
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

Products::~Products() { cublasLtDestroy(handle_); }

std::vector<cublasLtMatmulHeuristicResult_t> Products::candidates(const ProductForm& form,
                                                                  const Plan& plan) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(workspace_bytes_));
  // Not in place, where parts are added as they come, nor in 16 bits.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      alignment_of(form, form.k * form.n, form.factors));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      alignment_of(form, form.m * form.k, form.factors));
  const std::uint32_t of_result = alignment_of(form, form.m * form.n, form.result);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_result);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_result);

  constexpr int most = 8;
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  const cublasStatus_t result = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.description.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), preference.get(), most, found.data(), &count);
  if (result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_INVALID_VALUE)
    count = 0;
  else
    check(result, "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

Products::Plan& Products::plan_of(const ProductForm& form) {
  const auto [place, is_new] = plans_.try_emplace(form);
  if (!is_new) return *place->second;
  require_valid(form);
  const auto stored = [&](bool transposed, std::int64_t rows, std::int64_t columns) {
    return layout_of(form, form.factors, transposed ? columns : rows, transposed ? rows : columns);
  };
  place->second = std::make_unique<Plan>(
      Plan{description_of(form, options_.tf32), stored(form.transpose_b, form.k, form.n),
           stored(form.transpose_a, form.m, form.k), layout_of(form, form.result, form.m, form.n),
           std::nullopt, false});
  Plan& plan = *place->second;
  if (row_of(form.epilogue).saved && form.n % saved_multiple != 0) return plan;
  if (const auto found = candidates(form, plan); !found.empty()) plan.algorithm = found[0].algo;
  return plan;
}

bool Products::prepare(const ProductForm& form) {
  Plan& plan = plan_of(form);
  if (plan.algorithm && options_.timed && !plan.is_chosen) choose_fastest(form, plan);
  plan.is_chosen = true;
  return plan.algorithm.has_value();
}

// The fastest of the candidates on operands of its own, or what an earlier run found.
void Products::choose_fastest(const ProductForm& form, Plan& plan) {
  const auto fastest = [&] {
    const std::int64_t of_result = form.batch * form.m * form.n * bytes_of(form.result);
    const Memory memory(form.batch * std::max(form.m * form.k, form.k * form.n) *
                        bytes_of(form.factors));
    const Memory made(of_result), saved(row_of(form.epilogue).saved ? of_result : 1);
    if (memory.data() == nullptr || made.data() == nullptr || saved.data() == nullptr)
      throw NoMemory{};
    ProductOperands operands{memory.data(), memory.data(), made.data(),
                             nullptr,       memory.data(), saved.data()};
    const Stopwatch stopwatch;
    constexpr int times = 5;
    std::optional<float> least;
    cublasLtMatmulAlgo_t best = *plan.algorithm;
    for (const cublasLtMatmulHeuristicResult_t& each : candidates(form, plan)) {
      plan.algorithm = each.algo;
      const float passed = stopwatch.milliseconds(
          times, [&](cudaStream_t stream) { issue(form, plan, operands, stream); });
      if (least && passed >= *least) continue;
      least = passed;
      best = each.algo;
    }
    ++timed_;
    std::string content(sizeof best, '\0');
    std::memcpy(content.data(), &best, sizeof best);
    return content;
  };
  const cublasLtMatmulAlgo_t proposed = *plan.algorithm;
  const KernelKey key{text_of(form) + (options_.tf32 ? " tf32" : ""), options_.device,
                      fmt::format("cuBLASLt {}, {} bytes", cublasLtGetVersion(), workspace_bytes_)};
  try {
    const std::string kept = cache_.get(key, fastest);
    if (kept.size() == sizeof proposed) std::memcpy(&*plan.algorithm, kept.data(), sizeof proposed);
  } catch (const NoMemory&) {
    plan.algorithm = proposed;
  }
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t result =
      cublasLtMatmulAlgoCheck(handle_, plan.description.get(), plan.first.get(), plan.second.get(),
                              plan.result.get(), plan.result.get(), &*plan.algorithm, &checked);
  const bool fits = static_cast<std::int64_t>(checked.workspaceSize) <= workspace_bytes_;
  if (result != CUBLAS_STATUS_SUCCESS || !fits) plan.algorithm = proposed;
}

void Products::run(const ProductForm& form, const ProductOperands& operands, cudaStream_t stream) {
  const Plan& plan = plan_of(form);
  if (!plan.algorithm) throw RunError("cuBLASLt has no product " + text_of(form));
  issue(form, plan, operands, stream);
}

void Products::issue(const ProductForm& form, const Plan& plan, const ProductOperands& operands,
                     cudaStream_t stream) const {
  const EpilogueRow& epilogue = row_of(form.epilogue);
  if (epilogue.bias) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (epilogue.saved)
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.saved);
  const float one = 1, added = form.adds ? 1.0F : 0.0F;
  const void* start = operands.start != nullptr ? operands.start : operands.c;
  check(cublasLtMatmul(handle_, plan.description.get(), &one, operands.b, plan.first.get(),
                       operands.a, plan.second.get(), &added, start, plan.result.get(), operands.c,
                       plan.result.get(), &*plan.algorithm, workspace_,
                       static_cast<std::size_t>(workspace_bytes_), stream),
        "cublasLtMatmul");
}

}  // namespace meshwright::cuda
