// Matrix products through cuBLASLt, whose matrices are column-major. A row-major matrix is the
// transpose of a column-major one, so c = a b is given to cuBLASLt as c^T = b^T a^T: the factors
// swap and nothing is copied. Sums are in fp32. If k is split, the parts are added in a fixed
// order.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/backends/cuda/device/kernel_cache.h"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Operations on a matmul's sums before they are stored. GELU is the tanh form, for results in 16
// bits only.
enum class Epilogue : std::uint8_t {
  none,
  bias,
  gelu,
  gelu_bias,
  gelu_saved,       // the input of gelu is stored as well
  gelu_bias_saved,  // the input of gelu is stored as well
  gelu_grad         // times the slope of gelu at `saved`
};

// The form of a matmul, for which an algorithm is chosen: c[m,n] = epilogue(op(a)[m,k] op(b)[k,n]
// (+ start[m,n]) (+ bias[n])), `batch` times. Matrices are row-major and dense, and those of a
// batch follow one another.
struct ProductForm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false;  // a is stored [k,m]
  bool transpose_b = false;  // b is stored [n,k]
  bool adds = false;
  Dtype factors = Dtype::f32;        // a, b: f32, f16, bf16, e4m3, e5m2
  std::optional<Dtype> second = {};  // type of b if it is another one of 8 bits
  Dtype result = Dtype::f32;  // of c, start, bias, saved: f32, the factors' type, or 16 bits for 8
  Epilogue epilogue = Epilogue::none;
  int alignment = 16;  // of every address, in bytes: a power of two, at most 16

  bool operator==(const ProductForm&) const = default;
};
// Returns a text such as "nt 1x128x64x32 bf16 -> f32 + start, aligned to 16". The numbers are
// batch, m, n and k.
std::string text_of(const ProductForm& form);

struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* start = nullptr;  // null: the earlier contents of c
  const void* bias = nullptr;
  void* saved = nullptr;
  const void *a_scale = nullptr, *b_scale = nullptr;  // f32, for factors in 8 bits
};

struct ProductOptions {
  bool tf32 = false;        // factors in fp32 are rounded to tf32
  bool timed = true;        // candidates are timed; otherwise cuBLASLt's first one is chosen
  std::string device = {};  // the device's name, under which choices are kept
  int multiprocessors = 0;  // most that matmuls take, so that collectives overlap; 0: all
};

// Chooses algorithms for matmuls and runs them. Each device has one object. Only one thread may use
// it, and matmuls may not run on two streams at once, because they share scratch memory.
class Products {
 public:
  // Returns the bytes of scratch memory that matmuls get on this device: 32 MiB from Hopper on, 8
  // MiB on older devices.
  static std::int64_t workspace_bytes(const Device& device);

  // `workspace` is device memory, aligned to 256 bytes, that must outlive this object. Timed
  // choices are kept in `cache`, under a key of all that they depend on.
  Products(ProductOptions options, void* workspace, std::int64_t workspace_bytes,
           KernelCache& cache);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Chooses the algorithm of a form. That may take device memory and time, so it must be called
  // before the first step, outside of a capture. Returns false if cuBLASLt has no algorithm, or if
  // this backend does not use the form's epilogue.
  bool prepare(const ProductForm& form);

  // Issues the matmul and returns. A form that was not prepared takes the first algorithm that
  // cuBLASLt proposes. Throws RunError if prepare() would return false.
  void run(const ProductForm& form, const ProductOperands& operands, cudaStream_t stream);

  std::int64_t plans() const { return static_cast<std::int64_t>(plans_.size()); }
  std::int64_t timed() const { return timed_; }  // forms whose candidates were timed

 private:
  struct Plan;
  struct Hash {
    std::size_t operator()(const ProductForm& form) const;
  };
  Plan& plan_of(const ProductForm& form);
  Plan planned(const ProductForm& form) const;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const ProductForm& form,
                                                          const Plan& plan) const;
  void choose_fastest(const ProductForm& form, Plan& plan);
  void issue(const ProductForm& form, const Plan& plan, const ProductOperands& operands,
             cudaStream_t stream) const;

  ProductOptions options_;
  void* workspace_;
  std::int64_t workspace_bytes_;
  KernelCache& cache_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<ProductForm, std::unique_ptr<Plan>, Hash> plans_;
  std::int64_t timed_ = 0;
};

}  // namespace meshwright::exec::cuda
