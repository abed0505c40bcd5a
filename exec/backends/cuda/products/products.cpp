#include "exec/backends/cuda/products/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "exec/backends/cuda/device/check.h"
#include "exec/backends/cuda/device/stopwatch.h"
#include "models/core/error.h"
#include "models/program/graph/gpu_scratch.h"

namespace meshwright::exec::cuda {

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
  switch (dtype) {
    case Dtype::f32:
      return CUDA_R_32F;
    case Dtype::f16:
      return CUDA_R_16F;
    case Dtype::bf16:
      return CUDA_R_16BF;
    case Dtype::e4m3:
      return CUDA_R_8F_E4M3;
    case Dtype::e5m2:
      return CUDA_R_8F_E5M2;
    default:
      MESHWRIGHT_CHECK(false, "products are of fp32, 16-bit or 8-bit numbers");
  }
  return CUDA_R_32F;
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
const EpilogueRow& row_of(Epilogue epilogue) { return epilogue_rows[static_cast<int>(epilogue)]; }

// The number of elements in a row of what an epilogue saves must be a multiple of this.
constexpr std::int64_t saved_multiple = 8;

// Returns whether this backend uses a form's epilogue. cuBLASLt may compute GELU's tanh by an
// instruction of the device that is right to 11 bits only, so GELU is not used with fp32 results.
bool is_wanted(const ProductForm& form) {
  const EpilogueRow& row = row_of(form.epilogue);
  const bool gelu = form.epilogue != Epilogue::none && form.epilogue != Epilogue::bias;
  return (!row.saved || form.n % saved_multiple == 0) && (!gelu || form.result != Dtype::f32);
}

// Returns the alignment, in bytes, of every matrix of a batch. A matrix has `elements` elements.
std::uint32_t alignment_of(const ProductForm& form, std::int64_t elements, Dtype dtype) {
  auto bytes = static_cast<std::uint32_t>(form.alignment);
  if (form.batch > 1)
    while (elements * bytes_of(dtype) % bytes != 0) bytes /= 2;
  return bytes;
}

// Returns the layout of a row-major matrix [rows, columns] for cuBLASLt, whose matrices are
// column-major: it has `columns` rows and `rows` columns.
Layout layout_of(const ProductForm& form, cudaDataType_t type, std::int64_t rows,
                 std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  if (form.batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(form.batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }
  return layout;
}

// Returns cuBLASLt's description of a matmul. `somewhere` is an address, aligned to 16 bytes, that
// stands for the operands' addresses while candidates are chosen.
Description description_of(const ProductForm& form, const ProductOptions& options,
                           const void* somewhere) {
  const bool rounds = options.tf32 && form.factors == Dtype::f32;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Description description(made);
  if (options.multiprocessors > 0)
    set(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
        static_cast<std::int32_t>(options.multiprocessors));
  // cuBLASLt's first factor is b, and its second factor is a.
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, form.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, form.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (is_8_bit(form.factors)) {
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
  }
  const EpilogueRow& epilogue = row_of(form.epilogue);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.name);
  if (epilogue.bias) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
  if (epilogue.saved) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, form.n);
    if (form.batch > 1)
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, form.m * form.n);
  }
  return description;
}

void require_valid(const ProductForm& form) {
  MESHWRIGHT_CHECK(form.m > 0 && form.n > 0 && form.k > 0 && form.batch > 0,
                   "a product has elements");
  const bool narrow = is_8_bit(form.factors) && is_16_bit(form.result);
  MESHWRIGHT_CHECK(narrow || form.result == form.factors || form.result == Dtype::f32,
                   "results are stored as the factors are, or in fp32");
  MESHWRIGHT_CHECK(form.batch == 1 || !row_of(form.epilogue).bias,
                   "a bias is for all rows of one product");
}

Dtype second_of(const ProductForm& form) { return form.second.value_or(form.factors); }

// Returns device memory for operands while candidates are timed, or null if it cannot be allocated.
DeviceMemory memory_for_timing(std::int64_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  // This pattern of bytes is a number of moderate size in every type.
  constexpr int pattern = 0x3c;
  cuda::fill_device(memory, pattern, bytes);
  return DeviceMemory(memory);
}

struct NoMemory {};

}  // namespace

struct Products::Plan {
  Description description;
  Layout first, second, result;  // cuBLASLt's first factor is b, its second is a
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  bool is_chosen = false;  // set by prepare()
};

std::string text_of(const ProductForm& form) {
  const auto name = [](Dtype dtype) {
    constexpr std::string_view names[] = {"f64", "f32", "f16", "bf16", "e4m3", "e5m2"};
    return names[static_cast<int>(dtype)];
  };
  return fmt::format("{}{} {}x{}x{}x{} {}{} -> {}{}{}, aligned to {}", form.transpose_a ? 't' : 'n',
                     form.transpose_b ? 't' : 'n', form.batch, form.m, form.n, form.k,
                     name(form.factors),
                     form.second ? fmt::format(" x {}", name(*form.second)) : "", name(form.result),
                     form.adds ? " + start" : "", row_of(form.epilogue).text, form.alignment);
}

std::size_t Products::Hash::operator()(const ProductForm& form) const {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, a number at a time
  for (const std::int64_t number :
       {form.m, form.n, form.k, form.batch, std::int64_t{form.transpose_a},
        std::int64_t{form.transpose_b}, std::int64_t{form.adds},
        static_cast<std::int64_t>(form.factors), static_cast<std::int64_t>(form.result),
        static_cast<std::int64_t>(form.epilogue), std::int64_t{form.alignment},
        static_cast<std::int64_t>(form.second.value_or(form.factors))})
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
  // If k is split, the parts must be summed in order and in fp32: not in place, where they are
  // added as they come, and not in 16 bits.
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
  found.resize(count);
  std::erase_if(found, [](const auto& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

// Returns the plan of a matmul, still without an algorithm.
Products::Plan Products::planned(const ProductForm& form) const {
  const auto factor = [&](Dtype type, bool transposed, std::int64_t rows, std::int64_t columns) {
    return layout_of(form, type_of(type), transposed ? columns : rows, transposed ? rows : columns);
  };
  return {description_of(form, options_, static_cast<std::byte*>(workspace_) + 16),
          factor(second_of(form), form.transpose_b, form.k, form.n),
          factor(form.factors, form.transpose_a, form.m, form.k),
          layout_of(form, type_of(form.result), form.m, form.n), std::nullopt};
}

Products::Plan& Products::plan_of(const ProductForm& form) {
  if (const auto found = plans_.find(form); found != plans_.end()) return *found->second;
  require_valid(form);
  Plan plan = planned(form);
  if (is_wanted(form))
    if (const auto found = candidates(form, plan); !found.empty()) plan.algorithm = found[0].algo;
  return *plans_.emplace(form, std::make_unique<Plan>(std::move(plan))).first->second;
}

bool Products::prepare(const ProductForm& form) {
  Plan& plan = plan_of(form);
  if (plan.algorithm && options_.timed && !plan.is_chosen) choose_fastest(form, plan);
  plan.is_chosen = true;
  return plan.algorithm.has_value();
}

// Chooses the fastest candidate by timing them on operands made for that, or takes the choice that
// an earlier run has kept. The first candidate stays chosen if there is no memory for the operands,
// or if cuBLASLt rejects a kept choice.
void Products::choose_fastest(const ProductForm& form, Plan& plan) {
  const auto fastest = [&] {
    const std::int64_t of_result = form.batch * form.m * form.n * bytes_of(form.result);
    const std::int64_t of_factor =
        form.batch * std::max(form.m, form.n) * form.k * bytes_of(form.factors);
    const DeviceMemory factor = memory_for_timing(of_factor), made = memory_for_timing(of_result);
    const DeviceMemory saved = memory_for_timing(row_of(form.epilogue).saved ? of_result : 1);
    if (!factor || !made || !saved) throw NoMemory{};
    const ProductOperands operands{.a = factor.get(),
                                   .b = factor.get(),
                                   .c = made.get(),
                                   .bias = made.get(),
                                   .saved = saved.get(),
                                   .a_scale = made.get(),
                                   .b_scale = made.get()};
    const Stopwatch stopwatch;
    constexpr int times = 5, rounds = 2;  // the device's clock may rise during the first round
    std::optional<float> least;
    cublasLtMatmulAlgo_t best = *plan.algorithm;
    const std::vector<cublasLtMatmulHeuristicResult_t> all = candidates(form, plan);
    for (std::size_t i = 0; i < rounds * all.size(); ++i) {
      plan.algorithm = all[i % all.size()].algo;
      const float passed = stopwatch.milliseconds(
          times, [&](cudaStream_t stream) { issue(form, plan, operands, stream); });
      if (least && passed >= *least) continue;
      least = passed;
      best = *plan.algorithm;
    }
    ++timed_;
    std::string content(sizeof best, '\0');
    std::memcpy(content.data(), &best, sizeof best);
    return content;
  };
  const cublasLtMatmulAlgo_t proposed = *plan.algorithm;
  const std::string beside = options_.multiprocessors > 0
                                 ? fmt::format(", on {} multiprocessors", options_.multiprocessors)
                                 : "";
  const KernelKey key{fmt::format("{}{}{}", text_of(form), options_.tf32 ? ", tf32" : "", beside),
                      options_.device,
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
  if (is_8_bit(form.factors)) {  // cuBLASLt's first factor is b
    set(plan.description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.b_scale);
    set(plan.description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.a_scale);
  }
  const float one = 1, added = form.adds ? 1.0F : 0.0F;
  const void* start = operands.start != nullptr ? operands.start : operands.c;
  check(cublasLtMatmul(handle_, plan.description.get(), &one, operands.b, plan.first.get(),
                       operands.a, plan.second.get(), &added, start, plan.result.get(), operands.c,
                       plan.result.get(), &*plan.algorithm, workspace_, workspace_bytes_, stream),
        "cublasLtMatmul");
}

}  // namespace meshwright::exec::cuda
